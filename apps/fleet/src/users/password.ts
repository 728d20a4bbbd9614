import {
  createHash,
  createHmac,
  createSecretKey,
  randomBytes,
  type ScryptOptions,
  scrypt,
  timingSafeEqual,
} from 'node:crypto';
import { availableParallelism } from 'node:os';
import {
  BoundedMap,
  type Clock,
  Gate,
  Keyed,
  Lane,
  type LaneStats,
  SingleFlight,
  stack,
} from 'spillway';
import type { Access } from '../protocol/read-request.ts';
import type { User } from './users.ts';

/** The longest password that an account can have, in characters. */
export const newPasswordMax = 72;

/** A password that nobody can guess. */
export function randomPassword(): string {
  return randomBytes(15).toString('base64url');
}

/** Cost of new hashes: 32 MiB and some 80 ms of one core (2026-11); each hash names its own. */
const cost = { N: 2 ** 15, r: 8, p: 1 };
const keyBytes = 32;
const saltBytes = 16;
const memoryMax = 256 * 2 ** 20;

/** `scrypt$N$r$p$salt$key`, to be stored instead of the password. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  return hashText(salt, await derive(password, salt, cost));
}

function hashText(salt: Buffer, key: Buffer): string {
  const { N, r, p } = cost;
  return ['scrypt', N, r, p, salt.toString('base64'), key.toString('base64')].join('$');
}

/** True if a hash was made of this password; false for a text that is no hash. */
export async function matchesPassword(password: string, hash: string): Promise<boolean> {
  const [kind, N, r, p, salt = '', wanted = ''] = hash.split('$');
  if (kind !== 'scrypt') return false;
  const options = { N: Number(N), r: Number(r), p: Number(p) };
  const key = await derive(password, Buffer.from(salt, 'base64'), options);
  const expected = Buffer.from(wanted, 'base64');
  return expected.length === key.length && timingSafeEqual(expected, key);
}

/** A hash that no password matches, as costly to try as any. */
export const impossibleHash: string = hashText(Buffer.alloc(saltBytes), Buffer.alloc(keyBytes));

function derive(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, keyBytes, { ...options, maxmem: memoryMax }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}

/** A caller that may have to wait, and no longer than its signal says. */
export interface Waiter {
  readonly signal: AbortSignal;
}

/** Right passwords that are remembered, and wrong ones; the longest unused forgotten first. */
const rememberedMax = 50_000;
const wrongMax = 10_000;
/** Threads of Node that may hash at once: it has four, and files need one of them too. */
const hashesMax = Math.min(3, availableParallelism());
const waitingMax = 1_000;
/** Checks at once for one name and address, so that guessing keeps nobody else out. */
const perNameMax = 4;
/** Checks at once for all unknown names together. */
const strangersMax = 64;
/** Callers have shorter deadlines; a check goes on without them, for when they ask again. */
const deadlineMs = 300_000;
/** A longer password is wrong without a check. */
const passwordMax = 1_024;

/**
 * Checks passwords. The right ones are remembered, by a digest under a key that dies with the
 * process and together with the hash they matched: so a new password makes the old one wrong, and
 * what a worker sends with each request is hashed slowly only once.
 */
export class VerifiedPasswords {
  /** A key object: with plain bytes each digest would cost ten times as much. */
  readonly #key = createSecretKey(randomBytes(32));
  readonly #hashes = new BoundedMap<string, string>({ countMax: rememberedMax });
  /** Digests of wrong passwords: a worker that is set up wrongly asks again and again. */
  readonly #wrong = new BoundedMap<string, string>({ countMax: wrongMax });
  /** Shares checks, so that a thousand workers of one user cost one hash. */
  readonly #running = new SingleFlight<boolean>();
  /** Bounds the checks under way of each name and address. */
  readonly #ofName: Keyed<Gate>;
  readonly #lane: Lane;
  #hashed = 0;

  constructor({ clock }: { readonly clock: Clock }) {
    const name = 'passwords';
    const limits = { limit: { fixed: hashesMax }, queueMax: waitingMax, deadlineMs };
    this.#lane = new Lane({ name, ...limits, clock });
    const make = (key: string) =>
      new Gate({ limit: key === '' ? strangersMax : perNameMax, queueMax: 0 });
    this.#ofName = new Keyed({ make, keysMax: 2 * waitingMax, idleMs: 0, clock });
  }

  get stats(): { readonly remembered: number; readonly hashed: number; readonly lane: LaneStats } {
    return { remembered: this.#hashes.size, hashed: this.#hashed, lane: this.#lane.stats };
  }

  /** An unknown user, who has no hash, costs as much as a wrong password. */
  async check(
    { username, password, address = '' }: Access,
    hash: string = impossibleHash,
    waiter?: Waiter,
  ): Promise<boolean> {
    if (password.length > passwordMax) return false;
    const digest = this.#digest(username, password);
    if (this.#hashes.get(digest) === hash) return true;
    if (this.#wrong.get(digest) === hash) return false;
    const name = hash === impossibleHash ? '' : `${username} ${address}`;
    const work = () => this.#start(name, password, digest, hash);
    return this.#running.run(`${digest} ${hash}`, work, { signal: waiter?.signal });
  }

  async #start(name: string, password: string, digest: string, hash: string): Promise<boolean> {
    return await stack(
      this.#ofName.for(name),
      this.#lane,
    )(async () => {
      this.#hashed += 1;
      const isRight = await matchesPassword(password, hash);
      // Remembered here, and not by the callers, since all of them may have left.
      (isRight ? this.#hashes : this.#wrong).set(digest, hash);
      return isRight;
    });
  }

  /** Equal digests need no constant time: without the key nobody can choose one. */
  #digest(username: string, password: string): string {
    const text = JSON.stringify([username, password]);
    return createHmac('sha256', this.#key).update(text).digest('base64');
  }
}

/** Lifetime of a password link, in milliseconds. */
export const linkMs: number = 7 * 86_400_000;

type LinkUser = Pick<User, 'username' | 'password_hash'>;

/**
 * The path of a page on which a user chooses a new password, once: it is signed together with the
 * present password, so that a new one makes it void. `expiresAt` is an integer.
 */
export function passwordLink(key: string, user: LinkUser, expiresAt: number): string {
  const name = encodeURIComponent(user.username);
  return `/password/${name}/${expiresAt.toString(36)}-${signature(key, user, expiresAt)}`;
}

/** True if the last part of a path was made for this user, and can still be used. */
export function isPasswordLink(key: string, user: LinkUser, part: string, now: number): boolean {
  const [time = '', given = ''] = part.split(/-(.*)/s);
  const expiresAt = Number.parseInt(time, 36);
  if (!(expiresAt > now)) return false;
  const expected = Buffer.from(signature(key, user, expiresAt));
  const actual = Buffer.from(given);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}

/** A digest that changes with the password; a session with another digest is no longer valid. */
export function passwordMark({ password_hash }: Pick<User, 'password_hash'>): string {
  return createHash('sha256').update(password_hash).digest('base64url').slice(0, 16);
}

function signature(key: string, { username, password_hash }: LinkUser, expiresAt: number): string {
  const text = JSON.stringify(['password link', username, password_hash, expiresAt]);
  return createHmac('sha256', key).update(text).digest('base64url');
}
