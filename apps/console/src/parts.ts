import type { Quantiles } from 'spillway';

/** A lane or a pool, as its stats tell it. */
export interface LaneReading {
  readonly name: string;
  readonly limit: number;
  readonly inside: number;
  readonly waiting: number;
  readonly arrived: number;
  readonly arrivalsPerSecond: number;
  readonly serviceMs: Quantiles;
  readonly insideByLittle: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly parent?: string;
  readonly lanes?: readonly LaneReading[];
}

export interface PoolReading extends LaneReading {
  readonly recycled: number;
  readonly lost: number;
  readonly version: number;
  readonly workers: readonly WorkerReading[];
}

export interface WorkerReading {
  readonly index: number;
  readonly state: string;
  readonly ageMs: number;
  readonly tasks: number;
  readonly utilisation: number;
  readonly heapBytes: number;
  readonly version: number;
}

export interface BucketReading {
  readonly name: string;
  readonly tokens: number;
  readonly ratePerSecond: number;
  readonly waiting: number;
  readonly taken: number;
  readonly refused: number;
  readonly slowed: number;
}

export interface BreakerReading {
  readonly name: string;
  readonly state: 'closed' | 'open' | 'half-open';
  /** True while an operator holds it. */
  readonly held?: boolean;
  readonly calls: number;
  readonly failures: number;
  readonly opened: number;
  readonly callMs?: Quantiles;
  readonly lastFailure?: { readonly at: number; readonly message: string };
}

export interface LeaseReading {
  readonly name: string;
  readonly held: boolean;
  readonly fence: number;
  readonly leftMs: number;
}

export interface BacklogReading {
  readonly name: string;
  readonly waiting: number;
  readonly running: number;
  readonly done: number;
  readonly failed: number;
}

export interface HarvestReading {
  readonly name: string;
  readonly ratePerSecond: number;
  readonly inFlight: number;
  readonly limit: number;
  readonly retries: number;
  readonly throttled: number;
  readonly gaps: number;
  readonly etaMs?: number;
}

/** All parts of a service, found in its stats by their `kind`. */
export interface Parts {
  readonly lanes: readonly LaneReading[];
  readonly pools: readonly PoolReading[];
  readonly buckets: readonly BucketReading[];
  readonly breakers: readonly BreakerReading[];
  readonly leases: readonly LeaseReading[];
  readonly backlogs: readonly BacklogReading[];
  readonly harvests: readonly HarvestReading[];
}

const kinds: Readonly<Record<string, keyof Parts>> = {
  lane: 'lanes',
  pool: 'pools',
  bucket: 'buckets',
  'shared-bucket': 'buckets',
  breaker: 'breakers',
  'shared-breaker': 'breakers',
  lease: 'leases',
  backlog: 'backlogs',
  harvest: 'harvests',
};

/** Stats are a tree of a few levels; what lies deeper is not looked at. */
const depthMax = 8;

/** Finds the parts in the stats of a service. A part without a name gets that of its place. */
export function findParts(stats: unknown): Parts {
  const lists: Record<keyof Parts, object[]> = {
    lanes: [],
    pools: [],
    buckets: [],
    breakers: [],
    leases: [],
    backlogs: [],
    harvests: [],
  };
  const walk = (value: unknown, path: readonly string[]): void => {
    if (typeof value !== 'object' || value === null || path.length > depthMax) return;
    const list = kinds[String((value as { kind?: unknown }).kind)];
    // The panel wraps each part: its kind is told twice.
    const isPart = list !== undefined && !('stats' in value);
    if (isPart) lists[list].push({ ...value, name: nameOf(value, path) });
    for (const [key, inner] of Object.entries(value)) {
      if (isPart && key === 'workers') continue;
      walk(inner, isPart || key === 'stats' || /^\d+$/.test(key) ? path : [...path, key]);
    }
  };
  walk(stats, []);
  return lists as unknown as Parts;
}

function nameOf(value: object, path: readonly string[]): string {
  const { name, kind } = value as { readonly name?: unknown; readonly kind?: unknown };
  const isTold = typeof name === 'string' && name !== '' && name !== kind;
  return isTold ? name : path.join(' / ') || String(kind);
}
