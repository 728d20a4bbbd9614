import { Command } from 'commander';
import { print } from 'spillway-cli';
import type { Ingest } from '../open-ingest.ts';
import { examplesOf, openFor, table, withSettings } from './command-line.ts';

/** `ingest status`: how far each product is, without asking the exchange. */
export function statusCommand(): Command {
  const command = new Command('status')
    .description('show how far each product is, here and in the table; asks no exchange')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('status', 'status --exchange kraken --json'))
    .action(async ({ json }: { readonly json?: boolean }, self: Command) => {
      await using ingest = await openFor(self);
      const rows = await statusOf(ingest);
      const none = `Nothing was harvested from ${ingest.book.exchange} yet; see ingest run.`;
      print(rows, json, () => table(rows, none));
    });
  return withSettings(command, ['store', 's3Bucket']);
}

async function statusOf(ingest: Ingest): Promise<readonly object[]> {
  const { book } = ingest;
  const names = await book.products();
  if (names.length === 0) return [];
  const { manifest } = await ingest.table();
  return Promise.all(
    names.map(async (product) => {
      const { current: generation, building } = await book.generations(product);
      const of = { exchange: book.exchange, product, generation };
      const checkpoint = await book.checkpoint(of);
      const merged = manifest.products.find(
        (one) => one.exchange === of.exchange && one.product === product,
      );
      return {
        product,
        trades: checkpoint?.trades ?? 0,
        inTable: merged?.generation === generation ? merged.rows : 0,
        upToId: checkpoint?.highestId ?? 0,
        gaps: checkpoint?.harvest.gaps.length ?? 0,
        updatedAt: checkpoint?.updatedAt ?? null,
        generation,
        refreshing: building !== undefined,
      };
    }),
  );
}
