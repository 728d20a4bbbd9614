import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { Command } from 'commander';
import { print } from 'spillway-cli';
import type { ConnectorOptions } from '../connectors/connector.ts';
import type { Declaration, TradeFields } from '../connectors/declaration.ts';
import type { RecordColumn, RecordSchema } from '../table/records.ts';
import {
  counted,
  examplesOf,
  exitCodes,
  StopRequest,
  settingsOf,
  table,
  withSettings,
} from './command-line.ts';

/** `ingest source …`: declarations of other APIs. */
export function sourceCommands(): Command {
  const source = new Command('source').description('an API of your own, declared in a file');
  const check = new Command('check')
    .description('look at a declaration and ask for one page; stores nothing')
    .argument('<file>', 'YAML, JSON, or a module with a default export')
    .argument('[product]', 'default: the first of the declaration')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('source check github.yaml', 'source check api.ts --json'))
    .action(checkSource);
  source.addCommand(withSettings(check, ['baseUrl']));
  return source;
}

async function checkSource(
  file: string,
  product: string | undefined,
  { json }: { readonly json?: boolean },
  self: Command,
): Promise<void> {
  const { readDeclaration, problemsIn, problemText } = await import('../connectors/declaration.ts');
  const value = await readDeclaration(file);
  const problems = problemsIn(value);
  if (problems.length > 0) {
    print({ problems }, json, () => problems.map(problemText).join('\n'));
    process.exitCode = exitCodes.usage;
    return;
  }
  using stop = new StopRequest();
  const { baseUrl, firstAnswerSeconds } = settingsOf(self);
  const remedy = `see "address" and "headers" in ${file}, or --base-url`;
  // One attempt only, as a person is waiting.
  const options = { baseUrl, remedy, firstMsMax: firstAnswerSeconds * 1_000, contactsMax: 1 };
  const found = await look(value as Declaration, product, options, stop.signal);
  print(found, json, () => {
    const rows = found.columns.map(({ name, type, field }) => {
      const isKey = found.key.includes(field);
      return { column: name, type, key: isKey ? 'yes' : '', example: found.example[field] };
    });
    const sum = `${found.address}: ${counted(found.records, 'record')} in one page`;
    return [table(rows, 'No records.'), `${sum}${found.isEnd ? ', and no more' : ''}.`].join('\n');
  });
}

/** Fetches one page as a harvest would, and finds the columns of its records. */
async function look(
  source: Declaration,
  product: string | undefined,
  options: ConnectorOptions,
  signal: AbortSignal,
) {
  const { declared, schemaOf } = await import('../connectors/declared.ts');
  const { keysOf } = await import('../connectors/api.ts');
  await using connector = declared(source, { ...options, environment: process.env });
  const of = product ?? (await connector.products(signal))[0] ?? source.name;
  const latest = await connector.latest(of, signal);
  const to = latest === undefined ? undefined : latest + 1;
  const from = source.pages.by === 'ids' ? Math.max(0, (to ?? 0) - connector.pageSize) : undefined;
  const harvest = connector.source(of, { from, to: to ?? 0 });
  const page = harvest.pageAt(harvest.from);
  const answer = page && (await harvest.fetch(page, signal));
  const lines = answer?.rows.map((one) => Buffer.from(one.lines)) ?? [];
  const bytes = Buffer.concat(lines);
  const [first = ''] = bytes.toString().split('\n');
  const example = first === '' ? {} : JSON.parse(first);
  const found = {
    address: `${connector.baseUrl} ${of}`,
    records: answer?.rows.reduce((sum, { ids }) => sum + ids.length, 0) ?? 0,
    isEnd: answer?.isEnd ?? true,
  };
  const { trades } = source;
  if (trades !== undefined) {
    return { ...found, key: [String(trades.id)], example, columns: tradeColumns(trades) };
  }
  const columns = bytes.length === 0 ? [] : await columnsOf(bytes, schemaOf(source));
  return { ...found, key: keysOf(source.key), example: example.record ?? {}, columns };
}

function tradeColumns({ id, price, quantity, time, side }: TradeFields): readonly RecordColumn[] {
  return [
    { name: 'trade_id', type: 'BIGINT', field: String(id) },
    { name: 'trade_ts', type: 'TIMESTAMPTZ', field: String(time.field) },
    { name: 'price', type: 'DECIMAL(18,9)', field: String(price) },
    { name: 'quantity', type: 'DECIMAL(18,9)', field: String(quantity) },
    { name: `${side.of}_side`, type: 'VARCHAR', field: String(side.field) },
  ];
}

async function columnsOf(
  lines: Uint8Array,
  schema: RecordSchema,
): Promise<readonly RecordColumn[]> {
  const { Engine } = await import('../table/engine.ts');
  const { columnsFor, firstTypes } = await import('../table/records.ts');
  const scratch = await mkdtemp(join(tmpdir(), 'ingest-source-'));
  try {
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch });
    const file = join(scratch, 'page.jsonl.zst');
    await writeFile(file, zstdCompressSync(lines));
    return (await columnsFor(engine, [file], firstTypes(schema))).types.columns;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
