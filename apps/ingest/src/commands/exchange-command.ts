import { Command, InvalidArgumentError } from 'commander';
import { listenFault } from 'spillway-cli';
import type { ExchangeOptions } from '../exchange/exchange.ts';
import { simulatedPort } from '../simulated-port.ts';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';

interface ExchangeFlags {
  readonly trades: number;
  readonly growth: number;
  readonly seed: number;
  readonly rate: number;
  readonly burst: number;
  readonly latency: number;
  readonly errors: number;
  readonly hangs: number;
  readonly resets: number;
  readonly truncated: number;
  readonly garbled: number;
  readonly gapShare: number;
}

const defaultProducts = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

/** `ingest exchange`: an exchange whose every trade is known beforehand. */
export function exchangeCommand(): Command {
  const command = new Command('exchange')
    .description('a simulated exchange, to try everything with: it answers as real ones do')
    .argument('[products...]', `default: ${defaultProducts.join(' ')}`, defaultProducts)
    .option('--trades <number>', 'trades that each product has', numberFrom(0), 100_000)
    .option('--growth <number>', 'trades that each gets in a second', numberFrom(0), 0)
    .option('--seed <number>', 'other trades, other trouble', numberFrom(0), 1)
    .option('--rate <number>', 'requests a second; more are answered 429', numberFrom(0), 10)
    .option('--burst <number>', 'how many of them may come at once', numberFrom(1), 15)
    .option('--latency <ms>', 'how long an answer takes on average', numberFrom(0), 100)
    .option('--errors <share>', 'answered 5xx, from 0 to 1', share, 0.01)
    .option('--hangs <share>', 'never answered', share, 0)
    .option('--resets <share>', 'connection reset', share, 0)
    .option('--truncated <share>', 'ends in the middle', share, 0)
    .option('--garbled <share>', 'answered with what is no JSON', share, 0)
    .option('--gap-share <share>', 'ids that no trade has', share, 0)
    .addHelpText(
      'after',
      examplesOf('exchange', 'exchange BTC-USD --trades 1000000 --rate 50 --errors 0.05'),
    )
    .action(async (products: string[], flags: ExchangeFlags, self: Command) => {
      const { host, port = simulatedPort } = settingsOf(self);
      using stop = new Interruption();
      const { startExchange } = await import('../exchange/exchange.ts');
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

function exchangeOptions(products: readonly string[], flags: ExchangeFlags): ExchangeOptions {
  const { trades, growth: growthPerSecond, seed, gapShare, latency: meanMs } = flags;
  const { errors: error, hangs: hang, resets: reset, truncated, garbled, rate, burst } = flags;
  return {
    products: products.map((id) => ({ id, trades, growthPerSecond, seed, gapShare })),
    seed,
    rate: rate === 0 ? undefined : { ratePerSecond: rate, burst },
    latency: { meanMs },
    trouble: { error, hang, reset, truncated, garbled },
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

function numberFrom(min: number): (text: string) => number {
  return (text) => {
    const isWritten = /^\d+(\.\d+)?$/.test(text);
    if (isWritten && Number(text) >= min) return Number(text);
    throw new InvalidArgumentError(`It must be a number from ${min}.`);
  };
}

function share(text: string): number {
  if (/^(0(\.\d+)?|1(\.0+)?)$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number from 0 to 1.');
}
