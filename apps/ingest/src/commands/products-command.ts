import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import { examplesOf, openFor, settingsOf, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';

interface ProductsOptions {
  readonly path?: string;
  readonly merge?: boolean;
  readonly filterRegex?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const shownMax = 200;

/** `ingest products`: makes the list of products from what the exchange has. */
export function productsCommand(): Command {
  const command = new Command('products')
    .alias('update-seed')
    .description('ask the exchange for its products and write the list')
    .option('--path <file>', 'the list to write (default: the setting --seed-path)')
    .option('--merge', 'keep what is in the list already')
    .option('--filter-regex <pattern>', 'only ids in which this is found, such as -USD$')
    .option('--dry-run', `write nothing; show the count and the first ${shownMax}`)
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('products --filter-regex -USD$', 'products --merge --dry-run'))
    .action(async (options: ProductsOptions, self: Command) => {
      const pattern = patternOf(options.filterRegex);
      const path = options.path ?? settingsOf(self).seedPath;
      const { readSeed, writeSeed } = await import('../harvesting/seed-file.ts');
      const old = await readSeed(path);
      using stop = new Interruption();
      await using ingest = await openFor(self, { signal: stop.signal });
      const { connector, clock } = ingest;
      const found = await connector.products(stop.signal).catch((error: Error) => {
        stop.signal.throwIfAborted();
        throw new UsageError(`the products cannot be had: ${error.message}; nothing was written`);
      });
      const wanted = found.filter((id) => pattern.test(id));
      const all = new Set(options.merge ? [...old.productIds, ...wanted] : wanted);
      const productIds = [...all].sort();
      const metadata = {
        ...old.metadata,
        source: `${connector.name} ${connector.baseUrl}`,
        count: productIds.length,
        last_updated: new Date(clock.now()).toISOString(),
      };
      if (!options.dryRun) await writeSeed(path, { productIds, metadata });
      const result = { path, written: !options.dryRun, count: productIds.length, productIds };
      print(result, options.json, () => {
        const shown = options.dryRun ? `${productIds.slice(0, shownMax).join('\n')}\n` : '';
        const verb = options.dryRun ? 'would be written' : 'written';
        return `${shown}${productIds.length} of ${found.length} products, ${verb} to ${path}`;
      });
    });
  return withSettings(command, ['seedPath', 'baseUrl']);
}

function patternOf(text = ''): RegExp {
  try {
    return new RegExp(text);
  } catch (error) {
    throw new UsageError(`--filter-regex: ${(error as Error).message}`);
  }
}
