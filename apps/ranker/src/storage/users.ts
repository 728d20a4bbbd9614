import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { BoundedMap, type Clock } from 'spillway';
import type { Database } from 'spillway-sql';
import { rankerError } from '../errors.ts';
import { clean } from './articles.ts';
import type { RankerSchema, UserRow } from './ranker-schema.ts';
import { Records } from './records.ts';

/** Somebody with a taste of their own. */
export interface User {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
}

/** The number of keys remembered, so that not each request asks the database. */
const knownMax = 1_000;
const namePattern = /^[\w.@-]{1,64}$/;

/** Users and their keys. Only the hash of a key is kept. */
export class Users extends Records {
  readonly #clock: Clock;
  /** By the hash of the key. */
  readonly #known = new BoundedMap<string, User>({ countMax: knownMax });

  constructor(database: Database<RankerSchema>, clock: Clock) {
    super(database);
    this.#clock = clock;
  }

  /** A new user and the key, which cannot be shown a second time: only its hash is stored. */
  async add(name: string): Promise<{ readonly user: User; readonly key: string }> {
    if (!namePattern.test(name)) {
      throw rankerError('NAME_INVALID', 'name: 1 to 64 letters, digits or any of _ . @ -');
    }
    const key = newKey();
    const createdAt = this.#clock.now();
    const row: UserRow = { id: randomUUID(), name, key_hash: hashOf(key), created_at: createdAt };
    const added = await this.kysely
      .insertInto('users')
      .values(row)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (added.numInsertedOrUpdatedRows === 0n) {
      throw rankerError('NAME_TAKEN', `name: there is a user ${name} already`);
    }
    return { user: userOf(row), key };
  }

  /** A new key for a user; the old one is not accepted any more. */
  async renewKey(name: string): Promise<string> {
    const key = newKey();
    const { numUpdatedRows } = await this.kysely
      .updateTable('users')
      .set({ key_hash: hashOf(key) })
      .where('name', '=', clean(name))
      .executeTakeFirst();
    if (numUpdatedRows === 0n) throw rankerError('RECORD_UNKNOWN', `there is no user ${name}`);
    this.#known.clear();
    return key;
  }

  /** The owner of a key. Looked up by its hash, so the time it takes tells nothing about keys. */
  async byKey(key: string, signal?: AbortSignal): Promise<User | undefined> {
    const hash = hashOf(key);
    const known = this.#known.get(hash);
    if (known !== undefined) return known;
    const row = await this.kysely
      .selectFrom('users')
      .selectAll()
      .where('key_hash', '=', hash)
      .executeTakeFirst({ signal });
    if (row === undefined) return undefined;
    const user = userOf(row);
    this.#known.set(hash, user);
    return user;
  }

  /** All of them, oldest first. */
  async list(): Promise<User[]> {
    const rows = await this.kysely
      .selectFrom('users')
      .selectAll()
      .orderBy('created_at')
      .orderBy('id')
      .execute();
    return rows.map(userOf);
  }
}

/** 256 bits: nobody guesses one, so that a plain hash keeps it safe. */
function newKey(): string {
  return `rk_${randomBytes(32).toString('base64url')}`;
}

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

function userOf({ id, name, created_at }: UserRow): User {
  return { id, name, createdAt: created_at };
}
