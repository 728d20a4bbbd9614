import { Command } from 'commander';
import { systemRandom } from 'spillway';
import { print, UsageError } from 'spillway-cli';
import type { Ingest } from '../open-ingest.ts';
import { examplesOf, openFor, table, withSettings } from './command-line.ts';
import { exitCodes } from './exit-codes.ts';
import { Interruption } from './interruption.ts';

interface CleanOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

interface Cleaned {
  readonly product: string;
  /** Raw files that nobody knows of, and their bytes. */
  readonly files: number;
  readonly bytes: number;
  readonly status: 'deleted' | 'found' | 'locked';
}

/** `ingest clean`: deletes raw files that a crash left. */
export function cleanCommand(): Command {
  const command = new Command('clean')
    .description('delete raw files that a crash left and no checkpoint names')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--dry-run', 'only show what would be deleted')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('clean --dry-run', 'clean BTC-USD'))
    .action(async (named: string[], { dryRun = false, json }: CleanOptions, self: Command) => {
      using stop = new Interruption();
      await using ingest = await openFor(self, { signal: stop.signal });
      const known = await ingest.book.products(stop.signal);
      const unknown = named.find((name) => !known.includes(name));
      if (unknown !== undefined) {
        throw new UsageError(`${unknown}: nothing was harvested of it yet`);
      }
      const rows: Cleaned[] = [];
      for (const product of named.length > 0 ? named : known) {
        rows.push(await clean(ingest, product, dryRun, stop.signal));
      }
      const found = rows.filter(({ files, status }) => files > 0 || status === 'locked');
      print(rows, json, () => table(found, 'There is nothing to clean.'));
      const isLocked = rows.every(({ status }) => status === 'locked');
      if (isLocked && rows.length > 0) process.exitCode = exitCodes.locked;
    });
  return withSettings(command, ['store', 's3Bucket']);
}

async function clean(
  ingest: Ingest,
  product: string,
  isDry: boolean,
  signal: AbortSignal,
): Promise<Cleaned> {
  const { orphansOf } = await import('../harvesting/orphans.ts');
  const { book, folder, settings } = ingest;
  const options = { ...ingest, leaseMs: settings.leaseSeconds * 1000, random: systemRandom };
  const { current, building } = await book.generations(product, signal);
  let [files, bytes] = [0, 0];
  try {
    for (const generation of building === undefined ? [current] : [current, building]) {
      const of = { exchange: book.exchange, product, generation };
      for (const file of await orphansOf(of, options, signal)) {
        if (!isDry) await folder.delete(file.path, signal);
        files += 1;
        bytes += file.bytes;
      }
    }
  } catch (error) {
    if (Object(error).code !== 'LEASE_HELD') throw error;
    return { product, files, bytes, status: 'locked' };
  }
  return { product, files, bytes, status: isDry ? 'found' : 'deleted' };
}
