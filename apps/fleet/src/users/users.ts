import type { Kysely } from 'kysely';
import { BoundedMap, type Clock, Gate, SingleFlight } from 'spillway';
import type { Database } from 'spillway-sql';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import type { Access } from '../protocol/read-request.ts';
import type { FleetSchema, UserRow } from '../storage/fleet-schema.ts';
import { actionRow } from '../storage/rows.ts';
import { hashPassword, VerifiedPasswords, type Waiter } from './password.ts';

/** Someone who may send workers, submit runs, or approve them: a row, with what its JSON holds. */
export interface User extends Omit<UserRow, 'pending' | 'blocked' | 'groups'> {
  readonly pending: boolean;
  readonly blocked: boolean;
  readonly groups: readonly string[];
}

/** Group of the users that approve runs and users. */
export const approversGroup = 'group:approvers';

export type UserChange = Partial<Omit<User, 'username' | 'registration_time'>>;

/** A user to add; `pending` until an approver accepts it. */
export type NewUser = Omit<UserChange, 'password_hash'> & {
  readonly username: string;
  readonly password: string;
};

/** An entry of the log about a user. */
export interface UserLog {
  /** The person who did it. */
  readonly by: string;
  readonly action: 'new_user' | 'modify_user' | 'block_user' | 'accept_user';
  readonly message: string;
}

/** Users are cached this long: other instances and the command line may change them, too. */
const freshMs = 2_000;
const cachedMax = 20_000;

/** The accounts of users, and their authentication. */
export class Users {
  readonly #database: Database<FleetSchema>;
  readonly #clock: Clock;
  readonly #verified: VerifiedPasswords;
  /** Adds users one at a time, so that the second of two equal names is refused. */
  readonly #adding = new Gate({ limit: 1, queueMax: 1_000 });
  readonly #looking = new SingleFlight<User | undefined>();
  /** Number of changes so far. */
  #version = 0;
  readonly #seen = new BoundedMap<string, { readonly user: User; readonly at: number }>({
    countMax: cachedMax,
    first: 'oldest',
  });

  constructor({ database, clock }: Pick<Context, 'database' | 'clock'>) {
    this.#database = database;
    this.#clock = clock;
    this.#verified = new VerifiedPasswords({ clock });
  }

  get stats(): { readonly cached: number; readonly passwords: VerifiedPasswords['stats'] } {
    return { cached: this.#seen.size, passwords: this.#verified.stats };
  }

  /**
   * Authenticates a user; throws `ACCESS_REFUSED` in the words that workers know. The waiter's
   * signal is read only if there is something to wait for: to make one costs more than the rest.
   */
  async admit(access: Access, waiter?: Waiter): Promise<User> {
    const { username } = access;
    const user = this.#fresh(username) ?? (await this.#look(username, waiter));
    const isRight = await this.#verified.check(access, user?.password_hash, waiter);
    if (user === undefined || !isRight) {
      throw fleetError('ACCESS_REFUSED', 'Invalid username or password.');
    }
    if (user.blocked) throw fleetError('ACCESS_REFUSED', 'Your account is blocked.');
    if (user.pending) throw fleetError('ACCESS_REFUSED', 'Your account is pending approval.');
    return user;
  }

  /** The user as of the last two seconds, for pages that ask with each request. */
  async recent(username: string): Promise<User | undefined> {
    return this.#fresh(username) ?? this.#look(username);
  }

  #fresh(username: string): User | undefined {
    const seen = this.#seen.get(username);
    return seen !== undefined && this.#clock.now() - seen.at < freshMs ? seen.user : undefined;
  }

  async find(username: string, signal?: AbortSignal): Promise<User | undefined> {
    // Postgres would not even take it for a text.
    if (username.includes('\0')) return undefined;
    const row = await this.#database.kysely
      .selectFrom('users')
      .selectAll()
      .where('username', '=', username)
      .executeTakeFirst({ signal });
    return row === undefined ? undefined : userOf(row);
  }

  async list(): Promise<User[]> {
    const rows = await this.#database.kysely
      .selectFrom('users')
      .selectAll()
      .orderBy('username')
      .execute();
    return rows.map(userOf);
  }

  /** Adds a user, with an entry in the log if `by` did it; throws `USER_EXISTS`. */
  async add({ password, ...given }: NewUser, by?: string): Promise<User> {
    const user: User = {
      pending: true,
      blocked: false,
      email: '',
      groups: [],
      tests_repo: '',
      machine_limit: 16,
      ...given,
      registration_time: this.#clock.now(),
      password_hash: await hashPassword(password),
    };
    await this.#adding.run(() => this.#insert(user, by));
    this.#forget(user.username);
    return user;
  }

  /** Refuses a name that differs from another only in upper and lower case: people mix them up. */
  async #insert(user: User, by: string | undefined): Promise<void> {
    const { username } = user;
    const { kysely } = this.#database;
    const same = await kysely
      .selectFrom('users')
      .select('username')
      .where(({ fn }) => fn<string>('lower', ['username']), '=', username.toLowerCase())
      .executeTakeFirst();
    if (same !== undefined) {
      throw fleetError('USER_EXISTS', `There is a user ${same.username} already`);
    }
    await this.#database.transaction(async (tx) => {
      await tx
        .insertInto('users')
        .values(rowOf(user) as UserRow)
        .execute();
      if (by) await this.#log(tx, username, { by, action: 'new_user', message: 'added' });
    });
  }

  /** Changes a user, with an entry in the log; gives the user, or undefined if there is none. */
  async change(username: string, to: UserChange, log?: UserLog): Promise<User | undefined> {
    if (Object.keys(to).length === 0) return await this.find(username);
    await this.#database.transaction(async (tx) => {
      const update = tx.updateTable('users').set(rowOf(to)).where('username', '=', username);
      const { numUpdatedRows } = await update.executeTakeFirstOrThrow();
      if (numUpdatedRows > 0n && log) await this.#log(tx, username, log);
    });
    this.#forget(username);
    return await this.find(username);
  }

  async setPassword(username: string, password: string, by?: string): Promise<User | undefined> {
    const password_hash = await hashPassword(password);
    const message = 'password changed';
    const log = by === undefined ? undefined : ({ by, action: 'modify_user', message } as const);
    return await this.change(username, { password_hash }, log);
  }

  /** Removes a user who is pending, with an entry in the log; undefined if there is none. */
  async reject(username: string, by: string): Promise<User | undefined> {
    const row = await this.#database.transaction(async (tx) => {
      const gone = await tx
        .deleteFrom('users')
        .where('username', '=', username)
        .where('pending', '=', 1)
        .returningAll()
        .executeTakeFirst();
      const log = { by, action: 'accept_user', message: 'rejected' } as const;
      if (gone !== undefined) await this.#log(tx, username, log);
      return gone;
    });
    this.#forget(username);
    return row && userOf(row);
  }

  async #log(tx: Kysely<FleetSchema>, user: string, log: UserLog): Promise<void> {
    const { by, action, message } = log;
    const time = this.#clock.now() / 1000;
    const row = actionRow({ time, action, username: by, user, message });
    await tx.insertInto('actions').values(row).execute();
  }

  /** Concurrent callers share one query; its answer is as old as the moment it was asked. */
  #look(username: string, waiter?: Waiter): Promise<User | undefined> {
    const at = this.#clock.now();
    const version = this.#version;
    const look = async () => {
      const user = await this.find(username);
      // Unknown names are not cached: an attacker can invent as many as they like.
      if (user === undefined) this.#seen.delete(username);
      // Nothing is cached if any user was changed meanwhile.
      else if (this.#version === version) this.#seen.set(username, { user, at });
      return user;
    };
    return this.#looking.run(`${version} ${username}`, look, { signal: waiter?.signal });
  }

  #forget(username: string): void {
    this.#version += 1;
    this.#seen.delete(username);
  }
}

function userOf({ pending, blocked, groups, ...row }: UserRow): User {
  const list = JSON.parse(groups) as string[];
  return { ...row, pending: pending === 1, blocked: blocked === 1, groups: list };
}

/** The columns of what is known of a user. */
function rowOf({ pending, blocked, groups, ...plain }: Partial<User>): Partial<UserRow> {
  return {
    ...plain,
    ...(pending !== undefined && { pending: Number(pending) }),
    ...(blocked !== undefined && { blocked: Number(blocked) }),
    ...(groups !== undefined && { groups: JSON.stringify(groups) }),
  };
}
