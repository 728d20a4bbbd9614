import { Command, InvalidArgumentError } from 'commander';
import { wallClock } from 'spillway';
import { listenFault, UsageError } from 'spillway-cli';
import { simulatedPort, simulatedProducts } from '../settings.ts';
import type { ExchangeOptions } from '../simulated/exchange.ts';
import {
  examplesOf,
  productsOf,
  type Shard,
  StopRequest,
  settingsOf,
  shardOption,
  withSettings,
} from './command-line.ts';

interface FollowOptions {
  readonly simulated?: boolean;
  readonly shard?: Shard;
}

const shown = [
  'baseUrl',
  'feed',
  'ratePerSecond',
  'store',
  'storeConnections',
  's3Bucket',
  'host',
  'port',
  'operatorPort',
  'operatorToken',
];

/** `ingest follow`: keeps products up to date until it is stopped. */
export function followCommand(): Command {
  const command = new Command('follow')
    .description('keep products up to date, with a page and metrics to watch it')
    .argument('[products...]', 'default: those of the list (ingest products)')
    .option('--simulated', 'follow a simulated exchange, which is started with it')
    .addOption(shardOption())
    .addHelpText('after', examplesOf('follow --simulated', 'follow BTC-USD --port 8080'))
    .action(async (named: string[], options: FollowOptions, self: Command) => {
      const { simulated = false, shard } = options;
      const settings = settingsOf(self);
      if (simulated && settings.baseUrl !== undefined) {
        throw new UsageError('--base-url: not with --simulated, which has its own');
      }
      using stop = new StopRequest();
      const { follow } = await import('./follow.ts');
      const products =
        simulated && named.length === 0 ? [] : await productsOf(named, settings, shard);
      process.exitCode = await follow({ settings, products, simulated, signal: stop.signal });
    });
  return withSettings(command, shown);
}

interface ExchangeFlags {
  readonly trades: number;
  readonly growth: number;
  readonly rate: number;
  readonly latency: number;
  readonly errors: number;
  readonly limited: number;
}

/** `ingest exchange`: a simulated exchange. */
export function exchangeCommand(): Command {
  const command = new Command('exchange')
    .description('a simulated exchange, to try everything with: it answers as real ones do')
    .argument('[products...]', 'their names', simulatedProducts)
    .option('--trades <number>', 'trades that each product has', numberFrom0, 100_000)
    .option('--growth <number>', 'trades added per second', numberFrom0, 0)
    .option('--rate <number>', 'requests a second; more are answered 429', numberFrom0, 10)
    .option('--latency <ms>', 'mean time to an answer', numberFrom0, 100)
    .option('--errors <share>', 'share of requests answered 5xx, from 0 to 1', share, 0.01)
    .option('--limited <share>', 'share of requests answered 429 at random, from 0 to 1', share, 0)
    .addHelpText(
      'after',
      examplesOf('exchange', 'exchange BTC-USD --trades 1000000 --rate 50 --errors 0.05'),
    )
    .action(async (products: string[], flags: ExchangeFlags, self: Command) => {
      const { host, port = simulatedPort } = settingsOf(self);
      using stop = new StopRequest();
      const { startExchange } = await import('../simulated/exchange.ts');
      const options = { ...exchangeOptions(products, flags), host, port };
      await using exchange = await startExchange(options).catch((error: unknown) => {
        throw listenFault(error, { host, ports: { '--port': port } });
      });
      process.stdout.write(exchangeText(exchange.url, products, flags));
      await new Promise((resolve) => stop.signal.addEventListener('abort', resolve));
      const { requests, refused } = exchange.stats;
      process.stdout.write(`It had ${requests} requests, ${refused} of them too many.\n`);
    });
  return withSettings(command, ['host', 'port']);
}

/** The exchange that the flags describe; a burst is the requests of one and a half seconds. */
function exchangeOptions(products: readonly string[], flags: ExchangeFlags): ExchangeOptions {
  const { trades, growth, rate, latency, errors, limited } = flags;
  const burst = Math.max(1, Math.ceil(1.5 * rate));
  // New trades have the current time, and earlier ones go back from now at the same pace.
  const stepUs = Math.max(1, Math.floor(1e6 / Math.max(1, growth)));
  const startUs = Math.floor(wallClock.now() * 1000) - Math.floor(trades) * stepUs;
  const times = growth === 0 ? {} : { stepUs, startUs, growthPerSecond: growth };
  return {
    products: products.map((id) => ({ id, trades, ...times })),
    rate: rate === 0 ? undefined : { ratePerSecond: rate, burst },
    latency: { meanMs: latency },
    trouble: { error: errors, limited },
  };
}

function exchangeText(url: string, products: readonly string[], flags: ExchangeFlags): string {
  const { port } = new URL(url);
  const where = Number(port) === simulatedPort ? '' : ` --base-url ${url}`;
  const rate = flags.rate === 0 ? 'no rate limit' : `${flags.rate} requests a second`;
  return `A simulated exchange is ready at ${url}: ${rate}, ${flags.latency} ms, Ctrl-C ends it.
Its products: ${products.join(', ')}, with ${flags.trades.toLocaleString('en-US')} trades each.
In another terminal:
  npx ingest run ${products[0]} --exchange simulated${where}
  npx ingest verify --exchange simulated
  npx ingest query "SELECT product, count(*), max(price) FROM trades GROUP BY product"
`;
}

function numberFrom0(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number from 0.');
}

function share(text: string): number {
  if (/^(0(\.\d+)?|1(\.0+)?)$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number from 0 to 1.');
}
