import type { Range, Row } from './contest.ts';

/** The rows as lines of JSON, one comparison each. */
export function jsonLines(rows: readonly Row[]): string {
  return rows.map((row) => JSON.stringify(row)).join('\n');
}

/** The rows as tables to read, one for each thing that was measured. */
export function tables(rows: readonly Row[]): string {
  const groups = Map.groupBy(rows, ({ name, unit }) => `${name} (${unit})`);
  return [...groups].map(([title, group]) => `${title}\n${table(group)}`).join('\n\n');
}

/** The rows as a page: a section for each bench, a table for each thing that was measured. */
export function markdown(rows: readonly Row[]): string {
  const benches = Map.groupBy(rows, ({ name }) => name.split(': ', 1)[0] ?? name);
  const sections = [...benches].map(([bench, group]) => `## ${bench}\n\n${measures(bench, group)}`);
  return sections.join('\n\n');
}

function measures(bench: string, rows: readonly Row[]): string {
  const groups = Map.groupBy(rows, ({ name, unit }) => `${name.slice(bench.length + 2)} (${unit})`);
  const head =
    '| against | peer | Spillway | times better | target |\n| --- | --- | --- | --- | --- |';
  const tables = [...groups].map(([title, group]) => {
    return `### ${title}\n\n${head}\n${group.map(markdownRow).join('\n')}`;
  });
  return tables.join('\n\n');
}

function markdownRow(row: Row): string {
  const verdict = row.met === null ? '' : row.met ? ', met' : ', **missed**';
  const cells = [
    row.peerName,
    spread(row.peer, row.peerRange),
    spread(row.ours, row.oursRange),
    Number.isFinite(row.ratio) ? row.ratio.toFixed(2) : '-',
    `${row.target ?? ''}${verdict}`,
  ];
  return `| ${cells.join(' | ')} |`;
}

function spread(value: number, [least, most]: Range): string {
  return least === most ? figure(value) : `${figure(value)} (${figure(least)} to ${figure(most)})`;
}

function table(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.peerName,
    figure(row.peer),
    figure(row.ours),
    `${row.ratio.toFixed(2)}x`,
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
  const digits = Math.abs(value) >= 1_000 ? 0 : 1;
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}
