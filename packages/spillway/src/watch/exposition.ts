/** One number of a family, by its labels. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** The suffix of a name of a histogram: `_bucket`, `_sum`, `_count`. */
  readonly suffix?: string | undefined;
}

/** All numbers of one name. */
export interface MetricFamily {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** One sentence for people. @default none */
  readonly help?: string | undefined;
  readonly samples: readonly MetricSample[];
}

/** The media type of {@link exposition}. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';

/** Writes families in the format of Prometheus (text 0.0.4); merges families of one name. */
export function exposition(families: Iterable<MetricFamily>): string {
  const byName = Map.groupBy(families, ({ name }) => name);
  let text = '';
  for (const [name, [first, ...more]] of byName) {
    if (first === undefined) continue;
    if (first.help !== undefined) text += `# HELP ${name} ${escaped(first.help)}\n`;
    text += `# TYPE ${name} ${first.type}\n`;
    for (const { samples } of [first, ...more]) {
      for (const sample of samples) text += line(name, sample);
    }
  }
  return text;
}

function line(name: string, { labels, value, suffix = '' }: MetricSample): string {
  const pairs = Object.entries(labels).map(([label, text]) => {
    return `${label}="${escaped(text).replaceAll('"', '\\"')}"`;
  });
  const braced = pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
  return `${name}${suffix}${braced} ${number(value)}\n`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function number(value: number): string {
  if (value === Infinity) return '+Inf';
  return value === -Infinity ? '-Inf' : String(value);
}
