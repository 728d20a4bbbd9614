import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benches } from './benches.ts';
import { contest, type Row } from './contest.ts';
import { jsonLines, markdown, tables } from './report.ts';

const names = Object.keys(benches);
const usage = `usage: npm run bench -- <name> [--json | --markdown] [--quick]

Measures Spillway against its peers, each in a process of its own, in turns.
  <name>      one of: ${names.join(', ')}; or all
  --json      one JSON object a line: name, ours, peer, ratio, unit, peerName, target, met, ranges
  --markdown  a page with the machine, the versions of the peers, medians and spreads:
              npm run bench -- all --markdown > docs/numbers.md
  --quick     one short round: a look, not a result
  --help      this text

A ratio says how many times better ours is than the peer: more of what should be more, less of
what should be less.`;

function fail(message: string): never {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        markdown: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return fail((error as Error).message);
  }
}

/** Runs one bench, and those that belong to it. */
async function measure(name: string, quick: boolean): Promise<Row[]> {
  const bench = await benches[name]?.();
  if (bench === undefined) return fail(`there is no bench ${name}`);
  const rows = await contest(name, bench, quick);
  for (const more of bench.also ?? []) rows.push(...(await measure(more, quick)));
  return rows;
}

function page(rows: readonly Row[]): string {
  const manifest = readFileSync(join(import.meta.dirname, 'package.json'), 'utf8');
  const { devDependencies } = JSON.parse(manifest) as Record<string, Record<string, string>>;
  const peers = Object.entries(devDependencies ?? {}).filter(
    ([name]) => !name.startsWith('@types'),
  );
  const versions = peers.map(([name, version]) => `${name} ${version}`).join(', ');
  const judged = rows.filter(({ met }) => met !== null);
  const missed = judged.filter(({ met }) => met === false).length;
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'})`;
  return `# Numbers

Written by \`npm run bench -- all --markdown\`. Each contender runs in its own process, in turns
with the others, so that a noisy minute hits all of them. A figure is the median of the rounds (or
the best, where noise can only add), with the least and the most in brackets. "Times better" is
above 1 where Spillway is ahead: more of what should be more, less of what should be less.

Machine: ${machine}, Node ${process.versions.node}.
Targets: ${judged.length - missed} met, ${missed} missed.
Peers: ${versions}.

${markdown(rows)}`;
}

const { values, positionals } = parse();
if (values.help) {
  console.log(usage);
} else {
  const [name, ...rest] = positionals;
  if (name === undefined || rest.length > 0) fail('name exactly one bench, or all');
  if (name !== 'all' && !Object.hasOwn(benches, name)) fail(`there is no bench ${name}`);
  const rows: Row[] = [];
  for (const each of name === 'all' ? names : [name]) {
    const isRunAlready = rows.some((row) => row.name.startsWith(`${each}: `));
    if (!isRunAlready) rows.push(...(await measure(each, values.quick)));
  }
  const write = values.json ? jsonLines : values.markdown ? page : tables;
  console.log(write(rows));
}
