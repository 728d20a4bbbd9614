import { Command } from 'commander';
import { print } from 'spillway-cli';
import type { Ingest } from '../open-ingest.ts';
import { examplesOf, openFor, table, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';
import { Progress } from './progress.ts';
import { integerFrom1 } from './query-command.ts';
import { exitCodeOf, outcomesText, runStatus } from './run-report.ts';
import { transformedText } from './transform-command.ts';

interface GapsOptions {
  readonly maxRequests?: number;
  readonly json?: boolean;
}

/** `ingest gaps …`: what is noted as missing. */
export function gapsCommands(): Command {
  const gaps = new Command('gaps').description('parts of histories that are noted as missing');
  const list = new Command('list')
    .description('show all gaps')
    .argument('[products...]', 'default: all that were ever harvested')
    .addHelpText('after', examplesOf('gaps list', 'gaps list BTC-USD --json'))
    .action(async (named: string[], { json }: GapsOptions, self: Command) => {
      await using ingest = await openFor(self);
      const rows = await gapsOf(ingest, named);
      print(rows, json, () => table(rows, 'No gaps.'));
    });
  const fill = new Command('fill')
    .description('ask again for what is missing, and for nothing else')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--max-requests <number>', 'stop after so many requests', integerFrom1)
    .addHelpText('after', examplesOf('gaps fill', 'gaps fill BTC-USD'))
    .action(fillGaps);
  for (const command of [list, fill]) {
    gaps.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return gaps;
}

async function fillGaps(
  named: readonly string[],
  { json, maxRequests }: GapsOptions,
  self: Command,
): Promise<void> {
  using stop = new Interruption();
  await using ingest = await openFor(self, { signal: stop.signal, maxRequests });
  const before = await gapsOf(ingest, named);
  const products = [...new Set(before.map(({ product }) => product))];
  const wish = { fullRefresh: false, sinceUs: undefined, untilUs: undefined };
  const harvester = ingest.harvester({ ...wish, products, fillsGaps: true });
  {
    using _progress = new Progress(harvester, ingest, stop.signal);
    await harvester.run(stop.signal);
  }
  const { outcomes, requests, trades } = harvester;
  const transformer = trades > 0 ? await ingest.transformer() : undefined;
  const done = await transformer?.run({ products, rebuild: false, waits: true }, stop.signal);
  const left = await gapsOf(ingest, named);
  const status = runStatus(outcomes);
  const result = { status, requests, trades, gapsBefore: before.length, gaps: left, table: done };
  print(result, json, () => {
    const sum = `${trades} trades found; ${left.length} of ${before.length} gaps are left.`;
    const lines = [sum, ...(done === undefined ? [] : [transformedText(done)])];
    return products.length === 0 ? 'No gaps.' : [outcomesText(outcomes), ...lines].join('\n');
  });
  process.exitCode = exitCodeOf(outcomes);
}

interface ShownGap {
  readonly product: string;
  readonly from: number;
  readonly to: number;
  readonly ids: number;
  readonly reason: string;
}

async function gapsOf({ book, connector }: Ingest, named: readonly string[]): Promise<ShownGap[]> {
  const rows: ShownGap[] = [];
  for (const product of named.length > 0 ? named : await book.products()) {
    const { current: generation } = await book.generations(product);
    const checkpoint = await book.checkpoint({ exchange: book.exchange, product, generation });
    for (const gap of checkpoint?.harvest.gaps ?? []) {
      const [from, to] = [connector.idOf(gap.from), connector.idOf(gap.to)];
      rows.push({ product, from, to: to - 1, ids: to - from, reason: gap.reason });
    }
  }
  return rows;
}
