import { Command } from 'commander';
import { UsageError } from 'spillway-cli';
import { examplesOf, productsOf, settingsOf, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';

interface FollowOptions {
  readonly simulated?: boolean;
}

const shown = [
  'baseUrl',
  'ratePerSecond',
  'store',
  's3Bucket',
  'host',
  'port',
  'operatorPort',
  'operatorToken',
];

/** `ingest follow`: keeps products up to date until it is told to stop. */
export function followCommand(): Command {
  const command = new Command('follow')
    .description('keep products up to date, with a page and metrics to watch it')
    .argument('[products...]', 'default: those of the list (ingest products)')
    .option('--simulated', 'follow a simulated exchange, which is started with it')
    .addHelpText('after', examplesOf('follow --simulated', 'follow BTC-USD --port 8080'))
    .action(async (named: string[], { simulated = false }: FollowOptions, self: Command) => {
      const settings = settingsOf(self);
      if (simulated && settings.baseUrl !== undefined) {
        throw new UsageError('--base-url: not with --simulated, which has its own');
      }
      using stop = new Interruption();
      const { follow } = await import('./follow.ts');
      const products = simulated && named.length === 0 ? [] : await productsOf(named, settings);
      process.exitCode = await follow({ settings, products, simulated, signal: stop.signal });
      // Whoever started it may still hold a channel open, and all that mattered has stopped.
      if (process.connected) process.disconnect();
    });
  return withSettings(command, shown);
}
