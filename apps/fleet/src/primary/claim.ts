import { type Clock, FileLock, Lease, type Random } from 'spillway';
import type { FleetStorage } from '../storage/fleet-storage.ts';

/** The right to be the primary instance, as long as it is held. */
export interface Claim extends AsyncDisposable {
  /** Greater than that of every claim before. */
  readonly fence: number;
  readonly held: boolean;
  /** Aborts when it is lost. */
  readonly signal: AbortSignal;
}

export interface ClaimOptions {
  readonly storage: FleetStorage;
  readonly clock: Clock;
  readonly random: Random;
  /** Life of a lease that is not renewed, in milliseconds. */
  readonly leaseMs: number;
  /** The file that is locked instead, where all instances are on one machine. @default none */
  readonly lockPath?: string | undefined;
  /** Called as soon as no other instance can win. @default not called */
  readonly onWon?: (() => void) | undefined;
}

/** The file beside a SQLite database that its primary locks; undefined for other databases. */
export function primaryLockPath(database: string): string | undefined {
  const path = /^sqlite:(.+)$/s.exec(database)?.[1];
  return path && `${path}-primary`;
}

/**
 * Waits until this instance is the primary. A file's lock is free as soon as its holder dies; a
 * lease in the database, for instances anywhere, must expire first.
 */
export function claim(options: ClaimOptions, signal: AbortSignal): Promise<Claim> {
  const { lockPath } = options;
  return lockPath === undefined ? leased(options, signal) : locked(options, lockPath, signal);
}

async function leased(options: ClaimOptions, signal: AbortSignal): Promise<Claim> {
  const { storage, clock, random, leaseMs } = options;
  const store = await storage.database.store({ signal });
  const terms = { store, name: 'fleet', ttlMs: leaseMs, clock, random, signal };
  const lease = await Lease.acquire(terms).catch(async (error) => {
    await store[Symbol.asyncDispose]();
    throw error;
  });
  options.onWon?.();
  return {
    fence: lease.fence,
    signal: lease.signal,
    get held() {
      return lease.stats.held;
    },
    [Symbol.asyncDispose]: async () => {
      await lease[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

async function locked(options: ClaimOptions, path: string, signal: AbortSignal): Promise<Claim> {
  const { storage, clock, random } = options;
  const lock = new FileLock({ path, clock, random, deadlineMs: Infinity });
  const end = new AbortController();
  try {
    const place = await lock.acquire({ signal });
    options.onWon?.();
    const lost = AbortSignal.any([end.signal, place.signal]);
    return {
      fence: (await storage.fence()) + 1,
      signal: lost,
      get held() {
        return !lost.aborted;
      },
      [Symbol.asyncDispose]: async () => {
        end.abort();
        place[Symbol.dispose]();
        lock[Symbol.dispose]();
      },
    };
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}
