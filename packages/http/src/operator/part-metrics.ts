import type { LaneStats, PoolStats, SnapshotStats } from 'spillway';
import type { Reading } from '../base/panel.ts';
import { fieldsOf, type PartField, type PartKind } from './part-kind.ts';
import type { MetricFamily, MetricSample } from './prometheus.ts';

type Labels = Readonly<Record<string, string>>;
type Fields = Readonly<Record<string, unknown>>;

/** The numbers of all parts of a panel, by kind; of an unknown kind its plain numbers. */
export function partMetrics(readings: ReadonlyMap<string, Reading>): MetricFamily[] {
  return [...readings].flatMap(([name, { kind, stats }]) => {
    if (kind === 'failed') return [];
    return kind === 'other' ? otherMetrics(name, stats as Fields) : expand(kind, name, stats);
  });
}

/** The number under a name that Prometheus likes: snake case, base units, `_total`. */
function metric(
  prefix: string,
  field: string,
  { type, help }: PartField,
  samples: readonly MetricSample[],
): MetricFamily {
  const inSeconds = field.replace(/Ms(?=$|[A-Z])/, 'Seconds');
  const snake = inSeconds.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const scale = inSeconds === field ? 1 : 1 / 1000;
  const scaled = samples.map((sample) => ({ ...sample, value: sample.value * scale }));
  const name = `${prefix}_${snake}${type === 'counter' ? '_total' : ''}`;
  return { name, type, help, samples: scaled };
}

/** One value as samples: a number, a truth, a word, or numbers by name. */
function samplesOf(value: unknown, labels: Labels, field: PartField): MetricSample[] {
  if (typeof value === 'number') return [{ labels, value }];
  if (typeof value === 'boolean') return [{ labels, value: value ? 1 : 0 }];
  if (typeof value === 'string') {
    const states = field.states ?? [];
    return states.map((state) => {
      return { labels: { ...labels, state }, value: state === value ? 1 : 0 };
    });
  }
  if (typeof value !== 'object' || value === null) return [];
  // A window's quantiles are no summary: its sum and count would have to grow for ever.
  const by = 'p99' in value ? 'at' : field.type === 'counter' ? 'reason' : 'state';
  return Object.entries(value).flatMap(([name, number]) => {
    if (typeof number !== 'number' || (by === 'at' && name === 'count')) return [];
    return [{ labels: { ...labels, [by]: name }, value: number }];
  });
}

/** What holds others is shown with them: a lane's lanes, a pool's snapshot. */
function expand(kind: PartKind, name: string, stats: unknown): MetricFamily[] {
  switch (kind) {
    case 'lane': {
      const { lanes } = stats as LaneStats;
      const inner = pathsOf(name, lanes).flatMap(([path, lane]) => expand(kind, path, lane));
      return [...partFamilies(kind, name, stats as Fields), ...inner];
    }
    case 'pool': {
      return partFamilies(kind, name, poolFields(stats as PoolStats));
    }
    case 'snapshot':
      return partFamilies(kind, name, snapshotFields(stats as SnapshotStats));
    default:
      return partFamilies(kind, name, stats as Fields);
  }
}

function partFamilies(kind: PartKind, name: string, stats: Fields): MetricFamily[] {
  return Object.entries(fieldsOf(kind)).flatMap(([field, known]) => {
    const samples = samplesOf(stats[field], { [kind]: name }, known);
    return samples.length === 0 ? [] : [metric(`spillway_${kind}`, field, known, samples)];
  });
}

/** Lanes may share a name, but no two lines of metrics may. */
function pathsOf(parent: string, lanes: readonly LaneStats[]): [string, LaneStats][] {
  const seen = new Map<string, number>();
  return lanes.map((lane) => {
    const nth = (seen.get(lane.name) ?? 0) + 1;
    seen.set(lane.name, nth);
    return [`${parent}/${lane.name}${nth === 1 ? '' : `#${nth}`}`, lane];
  });
}

function poolFields(stats: PoolStats): Fields {
  const { workers } = stats;
  const byState: Record<string, number> = { starting: 0, ready: 0, retiring: 0 };
  for (const { state } of workers) byState[state] = (byState[state] ?? 0) + 1;
  const busy = workers.reduce((sum, { utilisation }) => sum + utilisation, 0);
  const heapBytes = workers.reduce((sum, worker) => sum + worker.heapBytes, 0);
  const utilisation = workers.length === 0 ? 0 : busy / workers.length;
  return { ...stats, workers: byState, utilisation, heapBytes };
}

function snapshotFields({ version, held }: SnapshotStats): Fields {
  const views = held.reduce((sum, one) => sum + one.views, 0);
  return { version, versions: held.length, views };
}

const otherField: PartField = { type: 'gauge', help: 'A number of a part of no known kind.' };

function otherMetrics(part: string, stats: Fields): MetricFamily[] {
  const samples = Object.entries(Object(stats) as Fields).flatMap(([field, value]) => {
    const isNumber = typeof value === 'number' || typeof value === 'boolean';
    return isNumber ? samplesOf(value, { part, field }, otherField) : [];
  });
  return [{ name: 'spillway_part', ...otherField, samples }];
}
