import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benches } from './benches.ts';
import { contest, type Row } from './contest.ts';
import { jsonLines, page, rowsIn, tables } from './report.ts';

const names = Object.keys(benches);
const usage = `usage: npm run bench -- <name> [--json | --markdown] [--keep <folder>]
                           [--only <text>] [--quick]

Measures Spillway against its peers, each in a process of its own, in turns.
  <name>       one of: ${names.join(', ')}; or all
  --json       one JSON object a line: name, ours, peer, ratio, unit, peerName, target, met, ranges
  --markdown   a page with the machine, the versions of the peers, medians and spreads
  --keep       a folder: each finished bench is kept there as <name>.jsonl and not measured again,
               so that a run of some hours may be interrupted and resumed:
               npm run bench -- all --keep results --markdown > docs/numbers.md
  --only-kept  measures nothing: writes what the folder has, and names what is missing
  --only       only the runs whose names contain the text
  --quick      one short round: a look, not a result
  --help       this text

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
        keep: { type: 'string' },
        only: { type: 'string' },
        'only-kept': { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return fail((error as Error).message);
  }
}

async function measure(name: string): Promise<Row[]> {
  const bench = await benches[name]?.();
  if (bench === undefined) return fail(`there is no bench ${name}`);
  const { quick, only } = values;
  const has = only === undefined || bench.runs.some((run) => run.name.includes(only));
  if (!has) fail(`--only: ${name} has no run whose name contains "${only}"`);
  // A bench may take half an hour: the terminal shows how far it is.
  return contest(name, bench, { quick, only, tell: (run) => console.error(run) });
}

/** Gives the rows of a bench from the folder, or measures them and keeps them there. */
async function measureOnce(name: string): Promise<Row[]> {
  if (keep === undefined) return await measure(name);
  const file = join(keep, `${name}.jsonl`);
  const kept = existsSync(file) ? rowsIn(readFileSync(file, 'utf8')) : [];
  if (kept.length > 0 || values['only-kept']) return kept;
  const rows = await measure(name);
  mkdirSync(keep, { recursive: true });
  writeFileSync(`${file}.new`, `${jsonLines(rows)}\n`);
  renameSync(`${file}.new`, file);
  return rows;
}

function machine(): string {
  const manifest = readFileSync(join(import.meta.dirname, 'package.json'), 'utf8');
  const { devDependencies } = JSON.parse(manifest) as Record<string, Record<string, string>>;
  const peers = Object.entries(devDependencies ?? {}).filter(
    ([name]) => !/^(@types|spillway)/.test(name),
  );
  const versions = peers.map(([name, version]) => `${name} ${version}`).join(', ');
  const cores = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'})`;
  return `- Machine: ${cores}, Node ${process.versions.node}.\n- Peers: ${versions}.`;
}

const { values, positionals } = parse();
const { keep } = values;
if (values.help) {
  console.log(usage);
} else {
  const [name, ...rest] = positionals;
  if (name === undefined || rest.length > 0) fail('name exactly one bench, or all');
  if (name !== 'all' && !Object.hasOwn(benches, name)) fail(`there is no bench ${name}`);
  if (values.only !== undefined && keep !== undefined)
    fail('--only keeps nothing: leave --keep out');
  if (values['only-kept'] && keep === undefined) fail('--only-kept needs --keep <folder>');
  const rows: Row[] = [];
  const missing: string[] = [];
  for (const each of name === 'all' ? names : [name]) {
    const measured = await measureOnce(each);
    rows.push(...measured);
    if (measured.length === 0) missing.push(each);
  }
  if (values.json) console.log(jsonLines(rows));
  else if (values.markdown) console.log(page(rows, missing, machine()));
  else console.log(tables(rows));
}
