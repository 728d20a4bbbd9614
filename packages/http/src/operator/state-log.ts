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

/** A change of state that an operator has to hear of. */
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

/** The fields whose every change is told, by the kind of the stats. */
const fields: Readonly<Record<string, readonly string[]>> = {
  breaker: ['state'],
  document: ['full'],
  lease: ['held'],
  pool: ['recycled', 'lost'],
  'shared-breaker': ['state'],
  sqlite: ['restarts', 'full'],
} satisfies { [Kind in keyof Watched]: readonly (keyof Watched[Kind])[] };

const lookMs = 1_000;

interface StateLogOptions {
  readonly panel: Panel;
  readonly unready: () => readonly string[];
  readonly faults: () => Readonly<Record<string, string>>;
  readonly tell: (change: StateChange) => void;
  readonly clock: Clock;
}

/**
 * Tells of changes of state: parts that are no longer ready or ready again, breakers, leases, full
 * disks, workers that were replaced. It compares stats once a second, so that parts need not log.
 */
export class StateLog implements Disposable {
  readonly #options: StateLogOptions;
  #seen: ReadonlyMap<string, StateChange>;
  #timer: Disposable | undefined;

  constructor(options: StateLogOptions) {
    this.#options = options;
    // Parts that are still starting are no news.
    this.#seen = this.#read([]);
    this.#arm();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(lookMs, () => {
      this.#arm();
      callHook(() => this.#look());
    });
  }

  #look(): void {
    const before = this.#seen;
    this.#seen = this.#read(this.#options.unready());
    for (const [key, { part, field, to }] of this.#seen) {
      const from = before.get(key)?.to;
      const isNew = !before.has(key);
      if (isNew || String(from) === String(to)) continue;
      const change = { part, field, from, to };
      const reasons = field === 'unready' ? this.#options.faults() : {};
      const isKnown = Object.keys(reasons).length > 0;
      this.#options.tell(isKnown ? { ...change, reasons } : change);
    }
  }

  #read(unready: readonly string[]): ReadonlyMap<string, StateChange> {
    const read: StateChange[] = [
      { part: 'service', field: 'unready', from: undefined, to: unready },
    ];
    for (const [part, { kind, stats }] of this.#options.panel.read()) {
      for (const field of fields[kind] ?? []) {
        read.push({ part, field, from: undefined, to: Object(stats)[field] });
      }
    }
    return new Map(read.map((state) => [`${state.part} ${state.field}`, state]));
  }
}
