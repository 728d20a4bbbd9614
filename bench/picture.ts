// Draws the README: node bench/picture.ts results/overload.jsonl > docs/images/overload.svg
import { readFileSync } from 'node:fs';
import { rowsIn } from './report.ts';

const capacity = 100;
const loads = ['0.5', '0.9', '1.5', '3', '10'];
const [left, right, top, bottom] = [60, 560, 50, 240];
const style = `
  text { font: 13px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #1f2328 }
  line { stroke: #d0d7de }
  polyline { fill: none; stroke: #8c959f; stroke-width: 2; stroke-linejoin: round }
  .ours { stroke: #0969da; stroke-width: 3 }
  text.ours { stroke: none; fill: #0969da; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc } line { stroke: #3d444d }
    .ours { stroke: #4493f8 } text.ours { fill: #4493f8 }
  }
`;
const dashes = ['', '', '6 4', '2 4'];

const x = (at: number): number => left + (at * (right - left)) / (loads.length - 1);
const y = (value: number): number => bottom - (value * (bottom - top)) / (1.1 * capacity);

/** Good answers a second of each contender, at each load. */
function read(path: string): Map<string, readonly number[]> {
  const rows = rowsIn(readFileSync(path, 'utf8'));
  const at = loads.map((load) =>
    rows.filter(({ name }) => name.endsWith(`: dependency: goodput at ${load}x`)),
  );
  const lines = new Map([['Spillway', at.map(([row]) => row?.ours ?? Number.NaN)]]);
  for (const { peerName } of at[0] ?? []) {
    const of = at.map((group) => group.find((row) => row.peerName === peerName)?.peer);
    lines.set(
      peerName,
      of.map((value) => value ?? Number.NaN),
    );
  }
  return lines;
}

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error('name the kept rows: results/overload.jsonl');
const lines = read(path);
const last = (values: readonly number[]): string => Math.round(values.at(-1) ?? 0).toString();
const said = [...lines].map(([name, values]) => `${name} ${last(values)}`);
const label = `Good answers a second at ten times the capacity: ${said.join(', ')}`;
const title = 'Good answers a second before a dependency that can do 100, nothing configured';
const grid = [0, 50, 100].map(
  (value) => `<line x1="${left}" x2="${right}" y1="${y(value)}" y2="${y(value)}"/>
<text x="${left - 10}" y="${y(value) + 4}" text-anchor="end">${value}</text>`,
);
const ticks = loads.map(
  (load, at) => `<text x="${x(at)}" y="${bottom + 22}" text-anchor="middle">${load}x</text>`,
);
/** Names below each other where lines end at the same height. */
let below = 0;
const drawn = [...lines]
  .toSorted(([, a], [, b]) => (b.at(-1) ?? 0) - (a.at(-1) ?? 0))
  .map(([name, values]) => {
    const at = [...lines.keys()].indexOf(name);
    const kind = at === 0 ? 'class="ours"' : `stroke-dasharray="${dashes[at] ?? ''}"`;
    const points = values.map((value, load) => `${x(load)},${y(value).toFixed(1)}`).join(' ');
    below = Math.max(below + 18, y(values.at(-1) ?? 0) + 4 - (at === 0 ? 0 : 30));
    return `<polyline ${kind} points="${points}"/>
<text ${kind} x="${right + 10}" y="${below}">${name} ${last(values)}</text>`;
  });
const svg = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 280" role="img"';
console.log(`<svg ${svg} aria-label="${label}">
<style>${style}</style><text class="title" x="${left}" y="24">${title}</text>
${[...grid, ...ticks, ...drawn].join('\n')}
</svg>`);
