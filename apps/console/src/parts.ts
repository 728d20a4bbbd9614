import type {
  BacklogStats,
  BreakerStats,
  BucketStats,
  HarvestStats,
  LaneStats,
  LeaseStats,
  PoolStats,
} from 'spillway';

/** Stats of a part, with the name that the service gives it. */
type Named<Stats> = Omit<Stats, 'kind'> & { readonly name: string };

export type LaneReading = LaneStats;
export type PoolReading = PoolStats;
export type BucketReading = Named<BucketStats>;
export type BreakerReading = Named<BreakerStats>;
export type LeaseReading = LeaseStats;
export type BacklogReading = Named<BacklogStats>;
export type HarvestReading = Named<HarvestStats<unknown>>;

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
  const lists = Object.fromEntries(
    Object.values(kinds).map((list): [string, object[]] => [list, []]),
  ) as Record<keyof Parts, object[]>;
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
