import type { Clock } from 'spillway';
import { checkInteger, checkNumber } from 'spillway/internal';
import type { Observable } from 'spillway-http';
import type { UserChanges } from '../ranking/ranking-parts.ts';
import type { Reader } from '../ranking/reader.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { Desk, type DeskOptions } from './desk.ts';

export interface DesksOptions {
  readonly reader: Reader;
  readonly changes: UserChanges;
  readonly storage: RankerStorage;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  /** After this time an article counts half, in hours; from 1, 36 by default. */
  readonly halfLifeHours?: number | undefined;
  /** The share of the list for unsure articles, from 0 to 0.5; 0.1 by default. */
  readonly explorationShare?: number | undefined;
  /** The number of newest articles ordered for a user, 10 to 10,000; 1,000 by default. */
  readonly articlesMax?: number | undefined;
  /** Told when lists could not be brought up to date without anybody waiting for it. */
  readonly onFailure: (error: unknown) => void;
}

/** The number of users whose lists are kept in memory. */
const desksMax = 32;

export interface DesksStats {
  readonly desks: number;
  /** Times that lists were made anew. */
  readonly changes: number;
  readonly failures: number;
}

/** The desks of those who read now, and the sign that something on one of them has changed. */
export class Desks implements Observable, Disposable {
  readonly #shared: Omit<DeskOptions, 'userId'>;
  /** By user; the one that was asked for last is the last. */
  readonly #desks = new Map<string, Desk>();
  readonly #listeners = new Set<() => void>();
  readonly #subscription: Disposable;
  #version = 0;
  #failures = 0;

  constructor(options: DesksOptions) {
    const { halfLifeHours = 36, explorationShare = 0.1, articlesMax = 1_000 } = options;
    const { reader, changes, storage, clock, onFailure } = options;
    checkNumber('halfLifeHours', halfLifeHours, 1);
    checkNumber('explorationShare', explorationShare, 0, 0.5);
    checkInteger('articlesMax', articlesMax, 10, 10_000);
    this.#shared = {
      reader,
      storage,
      clock,
      explorationShare,
      articlesMax,
      halfLifeMs: halfLifeHours * 3_600_000,
      onChange: () => {
        this.#version += 1;
        for (const listener of this.#listeners) listener();
      },
      onFailure: (error) => {
        this.#failures += 1;
        onFailure(error);
      },
    };
    this.#subscription = changes.listen((userId, change) => {
      const desk = this.#desks.get(userId);
      if (desk?.isLeft) this.#drop(userId, desk);
      else desk?.refreshSoon(change);
    });
  }

  get version(): number {
    return this.#version;
  }

  get stats(): DesksStats {
    return { desks: this.#desks.size, changes: this.#version, failures: this.#failures };
  }

  /** Calls back when a desk has changed, until it is disposed. */
  subscribe(listener: () => void): Disposable {
    const own = () => listener();
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /** The desk of a user if it is in memory. */
  find(userId: string): Desk | undefined {
    return this.#desks.get(userId);
  }

  /** The desk of a user; that of whom nobody has asked for the longest makes room for it. */
  open(userId: string): Desk {
    const desk = this.#desks.get(userId) ?? new Desk({ ...this.#shared, userId });
    this.#desks.delete(userId);
    this.#desks.set(userId, desk);
    for (const [oldest, old] of this.#desks) {
      if (this.#desks.size <= desksMax) break;
      this.#drop(oldest, old);
    }
    return desk;
  }

  #drop(userId: string, desk: Desk): void {
    this.#desks.delete(userId);
    desk[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    for (const desk of this.#desks.values()) desk[Symbol.dispose]();
    this.#desks.clear();
  }
}
