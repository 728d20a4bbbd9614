import { parseArgs } from 'node:util';
import { benches } from './benches.ts';
import { contest } from './contest.ts';
import { jsonLines, tables } from './report.ts';

const names = Object.keys(benches);
const usage = `usage: npm run bench -- <name> [--json] [--quick]

Measures Spillway against its peers, each in a process of its own, in turns.
  <name>    one of: ${names.join(', ')}
  --json    one JSON object a line: name, ours, peer, ratio, unit, peerName, target, met
  --quick   one short round: a look, not a result
  --help    this text

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
        quick: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return fail((error as Error).message);
  }
}

const { values, positionals } = parse();
if (values.help) {
  console.log(usage);
} else {
  const [name, ...rest] = positionals;
  if (name === undefined || rest.length > 0) fail('name exactly one bench');
  const load = Object.hasOwn(benches, name) ? benches[name] : undefined;
  if (load === undefined) fail(`there is no bench ${name}`);
  const bench = await load();
  const rows = await contest(name, bench, values.quick);
  for (const more of bench.also ?? []) {
    const other = await benches[more]?.();
    if (other) rows.push(...(await contest(more, other, values.quick)));
  }
  console.log(values.json ? jsonLines(rows) : tables(rows));
}
