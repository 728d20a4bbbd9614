import type { Row } from './contest.ts';

/** The rows as lines of JSON, one comparison each. */
export function jsonLines(rows: readonly Row[]): string {
  return rows.map((row) => JSON.stringify(row)).join('\n');
}

/** The rows as tables to read, one for each thing that was measured. */
export function tables(rows: readonly Row[]): string {
  const groups = Map.groupBy(rows, ({ name, unit }) => `${name} (${unit})`);
  return [...groups].map(([title, group]) => `${title}\n${table(group)}`).join('\n\n');
}

/** The rows that `jsonLines` has written. JSON writes null for NaN and for Infinity. */
export function rowsIn(lines: string): Row[] {
  const restore = (key: string, value: unknown): unknown =>
    value === null && key !== 'target' && key !== 'met' ? Number.NaN : value;
  const written = lines.split('\n').filter((line) => line !== '');
  return written.map((line) => JSON.parse(line, restore));
}

/** The rows as a page: a table for each bench, a row for each figure. */
export function page(rows: readonly Row[], missing: readonly string[], machine: string): string {
  const judged = rows.filter(({ met }) => met !== null);
  const missed = judged.filter(({ met }) => met === false);
  const misses = missed.map((row) => {
    const against = row.peerName === '' ? '' : `; ${opponent(row)}`;
    return `\n  - ${row.name}: ${row.target}, ours ${spread(row, 'ours')}${against}`;
  });
  const benches = Map.groupBy(rows, benchOf);
  const sections = [...benches].map(([bench, group]) => `## ${bench}\n\n${figures(bench, group)}`);
  return `# Numbers

Written by \`npm run bench -- all --keep results --markdown\`. Each contender runs in its own
process, in turns with the others, so that a noisy minute hits all of them. A figure is the median
of the rounds (or the best, where noise can only add), with the least and the most in brackets. The
factor behind a peer says how many times better Spillway is, above 1 where it is ahead: more of what
should be more, less of what should be less. For \`http\` and \`pool\` it is the median of the
factors of all rounds, since each round is shorter than most of the noise.

${machine}
- Not measured: ${missing.join(', ') || 'nothing'}.
- Targets: ${judged.length - missed.length} met, ${missed.length} missed.${misses.join('')}

${sections.join('\n\n')}`;
}

function benchOf({ name }: Row): string {
  return name.split(': ', 1)[0] ?? name;
}

function figures(bench: string, rows: readonly Row[]): string {
  const groups = Map.groupBy(rows, ({ name, unit }) => `${name.slice(bench.length + 2)} (${unit})`);
  const lines = [...groups].map(([title, group]) => {
    const peers = new Map(group.map((row) => [row.peerName, row]));
    const against = [...peers.values()].filter(({ peerName }) => peerName !== '').map(opponent);
    const targets = group.filter(({ met }) => met !== null).map(verdict);
    const ours = group[0] === undefined ? '' : spread(group[0], 'ours');
    return `| ${title} | ${ours} | ${against.join('; ')} | ${targets.join('; ')} |`;
  });
  return ['| what | Spillway | peers | target |', '| --- | --- | --- | --- |', ...lines].join('\n');
}

function opponent(row: Row): string {
  const ratio = Number.isFinite(row.ratio) ? `, ${row.ratio.toFixed(2)}x` : '';
  return `${row.peerName} ${spread(row, 'peer')}${ratio}`;
}

function verdict({ target, met }: Row): string {
  return `${target}: ${met ? 'met' : '**missed**'}`;
}

function spread(row: Row, side: 'ours' | 'peer'): string {
  const value = row[side];
  const [least, most] = row[`${side}Range`];
  return least === most ? figure(value) : `${figure(value)} (${figure(least)} to ${figure(most)})`;
}

function table(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.peerName,
    figure(row.peer),
    figure(row.ours),
    Number.isFinite(row.ratio) ? `${row.ratio.toFixed(2)}x` : '-',
    row.target ?? '',
    row.met === null ? '' : row.met ? 'met' : 'MISSED',
  ]);
  const lines = [['against', 'peer', 'ours', 'ratio', 'target', ''], ...cells];
  const width = (at: number): number => Math.max(...lines.map((line) => line[at]?.length ?? 0));
  const align = (cell: string, at: number): string =>
    at >= 1 && at <= 3 ? cell.padStart(width(at)) : cell.padEnd(width(at));
  return lines.map((line) => `  ${line.map(align).join('  ')}`.trimEnd()).join('\n');
}

function figure(value: number): string {
  if (!Number.isFinite(value)) return '-';
  const digits = Math.abs(value) >= 1_000 ? 0 : 1;
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}
