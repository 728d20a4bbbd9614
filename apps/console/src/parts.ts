import type {
  BacklogStats,
  BreakerStats,
  BucketStats,
  HarvestStats,
  LaneStats,
  LeaseStats,
  PoolStats,
} from 'spillway';
import { fits, type Shape } from './shape.ts';

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
  /** The number of parts that are not shown: too many, or of an unknown form. */
  readonly leftOut: number;
}

type PartList = Exclude<keyof Parts, 'leftOut'>;

const kinds: ReadonlyMap<unknown, PartList> = new Map<unknown, PartList>([
  ['lane', 'lanes'],
  ['pool', 'pools'],
  ['bucket', 'buckets'],
  ['shared-bucket', 'buckets'],
  ['breaker', 'breakers'],
  ['shared-breaker', 'breakers'],
  ['lease', 'leases'],
  ['backlog', 'backlogs'],
  ['harvest', 'harvests'],
]);

const times = { count: 0, mean: 0, p50: 0, p99: 0 };
const permits = { limit: 0, inside: 0, arrived: 0 };

/** The fields that the pages rely on; a service may be of another version than this console. */
const shapes: Readonly<Record<PartList, Shape>> = {
  lanes: {
    ...permits,
    waiting: 0,
    arrivalsPerSecond: 0,
    refused: { '*': 0 },
    serviceMs: times,
    lanes: [{ ...permits, name: '' }],
  },
  pools: { inside: 0, serviceMs: times, workers: [{ index: 0, utilisation: 0, state: '' }] },
  buckets: { tokens: 0, ratePerSecond: 0, taken: 0, refused: 0 },
  breakers: { state: '', 'callMs?': times, 'lastFailure?': { message: '' } },
  leases: {},
  backlogs: {},
  harvests: {},
};

/** Most parts of one kind that are shown, and their longest name, in characters. */
const partsMax = 500;
const nameMax = 200;
/** Stats are a tree of a few levels; what lies deeper is not looked at. */
const depthMax = 8;

/** Finds the parts in the stats of a service. A part without a name gets that of its place. */
export function findParts(stats: unknown): Parts {
  const lists = Object.fromEntries(
    [...kinds.values()].map((list): [string, object[]] => [list, []]),
  ) as Record<PartList, object[]>;
  let leftOut = 0;
  const walk = (value: unknown, path: readonly string[]): void => {
    if (typeof value !== 'object' || value === null || path.length > depthMax) return;
    const list = kinds.get((value as { kind?: unknown }).kind);
    // The panel wraps each part, so that its kind occurs twice.
    const isPart = list !== undefined && !('stats' in value);
    if (isPart && fits(value, shapes[list]) && lists[list].length < partsMax) {
      lists[list].push({ ...value, name: nameOf(value, path).slice(0, nameMax) });
    } else if (isPart) {
      leftOut += 1;
    }
    for (const [key, inner] of Object.entries(value)) {
      if (isPart && key === 'workers') continue;
      walk(inner, isPart || key === 'stats' || /^\d+$/.test(key) ? path : [...path, key]);
    }
  };
  walk(stats, []);
  return { ...lists, leftOut } as unknown as Parts;
}

function nameOf(value: object, path: readonly string[]): string {
  const { name, kind } = value as { readonly name?: unknown; readonly kind?: unknown };
  const isTold = typeof name === 'string' && name !== '' && name !== kind;
  return isTold ? name : path.join(' / ') || String(kind);
}
