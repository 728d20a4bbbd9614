import type { BacklogStats } from '../background/backlog.ts';
import { check } from '../base/check.ts';
import type { DocumentStats } from '../document/document.ts';
import type { HarvestStats } from '../harvest/harvest.ts';
import type { LaneStats } from '../lane/options.ts';
import type { BreakerStats } from '../outbound/breaker.ts';
import type { BucketStats } from '../outbound/bucket.ts';
import type { OutboundStats } from '../outbound/outbound.ts';
import type { RetryStats } from '../outbound/retry.ts';
import type { RetryBudgetStats } from '../outbound/retry-budget.ts';
import type { PoolStats } from '../pool/options.ts';
import type { SharedGateStats } from '../shared/gate-record.ts';
import type { LeaseStats } from '../shared/lease.ts';
import type { SharedBreakerStats } from '../shared/shared-breaker.ts';
import type { SharedBucketStats } from '../shared/shared-bucket.ts';
import type { SqliteFileStats } from '../sqlite/file.ts';
import type { BatchStats } from '../wait/batch.ts';
import type { EveryStats } from '../wait/every.ts';
import type { KeyedStats } from '../wait/keyed.ts';
import { exposition, type MetricFamily, type MetricSample } from './exposition.ts';
import type { Panel, Reading } from './panel.ts';

/** The stats of each kind of part that has counters. */
interface CountedStats {
  readonly backlog: BacklogStats;
  readonly batch: BatchStats;
  readonly breaker: BreakerStats;
  readonly bucket: BucketStats;
  readonly document: DocumentStats;
  readonly every: EveryStats;
  readonly harvest: HarvestStats<unknown>;
  readonly keyed: KeyedStats;
  readonly lane: LaneStats;
  readonly lease: LeaseStats;
  readonly outbound: OutboundStats;
  readonly pool: PoolStats;
  readonly retry: RetryStats;
  readonly 'retry-budget': RetryBudgetStats;
  readonly 'shared-breaker': SharedBreakerStats;
  readonly 'shared-bucket': SharedBucketStats;
  readonly 'shared-gate': SharedGateStats;
  readonly sqlite: SqliteFileStats;
}

/** The fields that only ever grow, which Prometheus calls counters; all others are gauges. */
const counters: Readonly<Record<string, readonly string[]>> = {
  backlog: ['added', 'merged', 'done', 'failed', 'dropped'],
  batch: ['groups'],
  breaker: ['calls', 'failures', 'opened', 'refused'],
  bucket: ['taken', 'refused', 'slowed'],
  document: ['transactions', 'writes'],
  every: ['runs', 'failures'],
  harvest: ['retries', 'throttled', 'gaps'],
  keyed: ['refused'],
  lane: ['arrived', 'started', 'finished', 'outcomes', 'refused'],
  lease: ['renewed', 'failed'],
  outbound: ['calls', 'failures'],
  pool: ['arrived', 'started', 'finished', 'outcomes', 'refused', 'recycled', 'lost'],
  retry: ['calls', 'retries', 'failures'],
  'retry-budget': ['requests', 'retries', 'refused'],
  'shared-breaker': ['calls', 'failures', 'opened', 'refused'],
  'shared-bucket': ['taken', 'refused', 'slowed', 'trips'],
  'shared-gate': ['trips', 'refused', 'lost'],
  sqlite: ['transactions', 'groups', 'reads', 'restarts'],
} satisfies { [Kind in keyof CountedStats]: readonly (keyof CountedStats[Kind])[] };

/** The same for parts of the sibling packages, whose types this package cannot import. */
const siblingCounters: typeof counters = {
  hub: ['messagesIn', 'messagesOut', 'dropped', 'refused', 'closed', 'relay'],
  'redis-store': ['groups'],
  'store-channel': ['published', 'received', 'lost', 'failures'],
};

/** The label that tells the numbers within one field apart; `reason` for other fields. */
const nameLabels: Readonly<Record<string, string>> = { outcomes: 'outcome', relay: 'event' };

type Labels = Readonly<Record<string, string>>;
type Fields = Readonly<Record<string, unknown>>;

/** Writes the numbers of all parts in the format of Prometheus, of type `expositionType`. */
export function metrics(panel: Panel): string {
  check(typeof Object(panel).read === 'function', 'metrics: panel', 'a Panel', panel);
  return exposition(partMetrics(panel.read()));
}

/**
 * Derives metrics from stats: a number becomes `spillway_<kind>_<field>` with the part's name as a
 * label, a parent's name as another. Parts inside others are exported once, under their own kind.
 */
export function partMetrics(readings: ReadonlyMap<string, Reading>): MetricFamily[] {
  const families: MetricFamily[] = [];
  const names = new Set<string>();
  for (const [name, { kind, stats }] of readings) {
    if (kind === 'failed') continue;
    const part: Part = { kind, name, parent: undefined, stats: Object(stats) };
    for (const each of withInner(part)) addPart(families, each, names);
  }
  return families;
}

interface Part {
  readonly kind: string;
  readonly name: string;
  readonly parent: string | undefined;
  readonly stats: Fields;
}

/** The part and all parts inside it: the lanes of a lane, the snapshot of a pool. */
function* withInner(part: Part): Generator<Part> {
  yield part;
  for (const [field, value] of Object.entries(part.stats)) {
    for (const inner of [value].flat()) {
      const stats = Object(inner) as Fields;
      if (typeof stats.kind !== 'string') continue;
      const name = typeof stats.name === 'string' ? stats.name : field;
      yield* withInner({ kind: stats.kind, name, parent: part.name, stats });
    }
  }
}

function addPart(families: MetricFamily[], part: Part, names: Set<string>): void {
  const { kind, name, parent, stats } = part;
  // Two parts may share a name, but no two lines of metrics may.
  let unique = name;
  for (let nth = 2; names.has(`${kind} ${parent} ${unique}`); nth += 1) unique = `${name}#${nth}`;
  names.add(`${kind} ${parent} ${unique}`);
  // A label must begin with a letter, or Prometheus refuses all of the text.
  const named = kind === 'other' || !/^[a-z]/i.test(kind) ? 'part' : snake(kind);
  const labels = { [named]: unique, ...(parent !== undefined && { parent }) };
  for (const [field, value] of Object.entries(stats)) {
    addField(families, `spillway_${named}_`, field, {
      value,
      labels,
      isCounter: (counters[kind] ?? siblingCounters[kind])?.includes(field) ?? false,
    });
  }
}

interface Field {
  readonly value: unknown;
  readonly labels: Labels;
  readonly isCounter: boolean;
}

/** Adds one value: number, boolean, state, numbers by name, or a list of items with numbers. */
function addField(
  families: MetricFamily[],
  prefix: string,
  field: string,
  { value, labels, isCounter }: Field,
): void {
  if (!Array.isArray(value)) {
    const samples = samplesOf(field, value, labels, isCounter);
    if (samples.length > 0) families.push(family(prefix, field, isCounter, samples));
    return;
  }
  const names = value.map((item) => String(Object(item).name));
  for (const [at, item] of value.entries()) {
    const { kind, name, ...numbers }: Fields = Object(item);
    if (kind !== undefined) continue;
    const isFirst = name !== undefined && names.indexOf(String(name)) === at;
    const label = isFirst ? String(name) : String(at);
    for (const [inner, number] of Object.entries(numbers)) {
      const each = { value: number, labels: { ...labels, item: label }, isCounter: false };
      if (!Array.isArray(number)) addField(families, `${prefix}${snake(field)}_`, inner, each);
    }
  }
}

function samplesOf(
  field: string,
  value: unknown,
  labels: Labels,
  isCounter: boolean,
): MetricSample[] {
  if (typeof value === 'number') return [{ labels, value }];
  if (typeof value === 'boolean') return [{ labels, value: value ? 1 : 0 }];
  if (field === 'state' && typeof value === 'string') {
    return [{ labels: { ...labels, state: value }, value: 1 }];
  }
  if (typeof value !== 'object' || value === null || 'kind' in value) return [];
  // Quantiles of a window are no summary of Prometheus, whose sum and count only ever grow.
  const nameLabel = isCounter ? (nameLabels[field] ?? 'reason') : 'state';
  const by = 'p99' in value ? 'at' : nameLabel;
  return Object.entries(value).flatMap(([name, number]) => {
    if (typeof number !== 'number' || (by === 'at' && name === 'count')) return [];
    return [{ labels: { ...labels, [by]: name }, value: number }];
  });
}

/** Names the number by the rules of Prometheus: snake case, base units, `_total`. */
function family(
  prefix: string,
  field: string,
  isCounter: boolean,
  samples: readonly MetricSample[],
): MetricFamily {
  const inSeconds = field.replace(/Ms(?=$|[A-Z])/, 'Seconds');
  const scale = inSeconds === field ? 1 : 1 / 1000;
  return {
    name: `${prefix}${snake(inSeconds)}${isCounter ? '_total' : ''}`,
    type: isCounter ? 'counter' : 'gauge',
    samples: samples.map((sample) => ({ ...sample, value: sample.value * scale })),
  };
}

/** Any text as a part of a metric's name. */
function snake(text: string): string {
  const words = text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return words.replace(/[^a-z0-9_]/g, '_');
}
