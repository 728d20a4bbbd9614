import type {
  BreakerStats,
  Clock,
  DocumentStats,
  LeaseStats,
  Panel,
  PoolStats,
  SharedBreakerStats,
  SqliteFileStats,
} from 'spillway';
import { callHook } from 'spillway/internal';
import { repeat } from '../base/repeat.ts';

/** A change of state that is logged for operators. */
export interface StateChange {
  readonly part: string;
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
  /** The reasons of the parts that are not ready, as far as they know them. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
}

interface Watched {
  readonly breaker: BreakerStats;
  readonly document: DocumentStats;
  readonly lease: LeaseStats;
  readonly pool: PoolStats;
  readonly 'shared-breaker': SharedBreakerStats;
  readonly sqlite: SqliteFileStats;
}

/** The fields whose changes are reported, by the kind of the stats. */
const fields: Readonly<Record<string, readonly string[]>> = {
  breaker: ['state'],
  document: ['full'],
  lease: ['held'],
  pool: ['recycled', 'lost'],
  'shared-breaker': ['state'],
  sqlite: ['restarts', 'full'],
} satisfies { [Kind in keyof Watched]: readonly (keyof Watched[Kind])[] };

const checkMs = 1_000;

interface StateLogOptions {
  readonly panel: Panel;
  readonly unready: () => readonly string[];
  readonly faults: () => Readonly<Record<string, string>>;
  readonly tell: (change: StateChange) => void;
  readonly clock: Clock;
}

/**
 * Reports changes of state: parts that are no longer ready or ready again, breakers, leases, full
 * disks, workers that were replaced. It compares stats once a second, so that parts need not log.
 */
export class StateLog implements Disposable {
  readonly #options: StateLogOptions;
  /** Value of each reported field, by its part and name. */
  #seen: ReadonlyMap<string, unknown>;
  readonly #timer: Disposable;

  constructor(options: StateLogOptions) {
    this.#options = options;
    // Parts that are still starting are no news.
    this.#seen = new Map(this.#read([]));
    this.#timer = repeat(options.clock, checkMs, () => callHook(() => this.#check()));
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #check(): void {
    const { unready, faults, tell } = this.#options;
    const before = this.#seen;
    this.#seen = new Map(this.#read(unready()));
    for (const [key, to] of this.#seen) {
      const from = before.get(key);
      if (!before.has(key) || String(from) === String(to)) continue;
      const [part, field] = JSON.parse(key);
      const reasons = field === 'unready' ? faults() : {};
      const isKnown = Object.keys(reasons).length > 0;
      tell({ part, field, from, to, ...(isKnown && { reasons }) });
    }
  }

  *#read(unready: readonly string[]): Generator<[key: string, value: unknown]> {
    yield [JSON.stringify(['service', 'unready']), unready];
    for (const [part, { kind, stats }] of this.#options.panel.read()) {
      for (const field of fields[kind] ?? []) {
        yield [JSON.stringify([part, field]), Object(stats)[field]];
      }
    }
  }
}
