import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { every, exposition, Panel, wallClock } from 'spillway';
import { replaceFile } from 'spillway/internal';
import { demandListenable, listenFault, UsageError } from 'spillway-cli';
import {
  askOperator,
  createServer,
  type HttpServer,
  type OperatorRemote,
  operatorSocket,
  State,
} from 'spillway-http';
import { makeDirectories } from '../files/directories.ts';
import { Feed } from '../harvest/feed.ts';
import { Follower } from '../harvest/follower.ts';
import type { HarvestRequest } from '../harvest/harvester.ts';
import { sourceName } from '../harvest/ledger.ts';
import { LiveTrades } from '../harvest/live.ts';
import { liveConnector } from '../harvest/live-connector.ts';
import { joinRawFiles } from '../harvest/raw-join.ts';
import { type Ingest, openIngest } from '../open.ts';
import { qualityPage } from '../quality/page.ts';
import { QualityWatch, qualityMetrics } from '../quality/watch.ts';
import { type Settings, settingsReader, simulatedProducts } from '../settings.ts';
import { type Exchange, startExchange } from '../simulated/exchange.ts';
import { counted, exitCodes, nounOf } from './command-line.ts';
import { FollowHistory, followPage, viewOf } from './follow-page.ts';

export interface FollowOptions {
  readonly settings: Settings;
  readonly products: readonly string[];
  /** Starts a simulated exchange, and follows that. */
  readonly simulated: boolean;
  readonly signal: AbortSignal;
}

/** Settings whose values operators may see; of the others they see whether they are set. */
const visible = settingsReader.names.filter((name) => {
  return settingsReader.rules[name].hides === undefined;
});
const defaultPort = 7070;
const showMs = 1_000;
/** Time after which a product that is far behind lets the others have a turn, in ms. */
const sliceMs = 30_000;
const liveSliceMs = 5_000;

/** Follows until the signal aborts, then commits complete pages; returns the exit code. */
export async function follow(options: FollowOptions): Promise<number> {
  await using stack = new AsyncDisposableStack();
  // Checked first, so that a refused start leaves nothing behind.
  const { data, host, port = defaultPort, operatorPort } = options.settings;
  const remote = remoteOf(options.settings);
  await demandAlone(data);
  const ports = { '--port': port, ...(operatorPort && { '--operator-port': operatorPort }) };
  await demandListenable({ host, ports });
  const startUs = options.simulated ? await beginning(data) : 0;
  const exchange = options.simulated ? stack.use(await startSimulation(startUs)) : undefined;
  const products = options.products.length > 0 ? options.products : simulatedProducts;
  const settings = exchange === undefined ? options.settings : simulatedSettings(options, exchange);
  const ingest = stack.use(await openIngest({ settings, environment: process.env, goesOn: true }));
  if (exchange !== undefined) await noteBeginning(data, startUs);
  const watch = new QualityWatch(await ingest.table(), ingest.clock);
  const follower = await followerOf(ingest, products, watch);
  const server = await serverOf(ingest, follower, watch, remote, exchange);
  // A server that fails to listen has timers, too, which would keep the process alive.
  stack.defer(() => server.close());
  await server.start({ signal: options.signal }).catch((error: unknown) => {
    throw listenFault(error, { host, ports });
  });
  greet(ingest, server, products, exchange);
  process.send?.({ ready: true });
  await follower.run(options.signal);
  const { trades, requests, feed } = follower.stats;
  const what = `${counted(trades, nounOf(settings))} came in ${counted(requests, 'request')}`;
  process.stderr.write(`Stopped; ${what}, all committed.\n`);
  if (feed === undefined) return exitCodes.ok;
  if (feed.uncompared > 0) {
    const left = `${counted(feed.uncompared, 'trade')} of the feed`;
    const remedy = 'the next ingest follow does it';
    process.stderr.write(`${left} not compared with REST yet: ${remedy}.\n`);
  }
  return feed.contradicted > 0 ? exitCodes.failed : exitCodes.ok;
}

/** Refuses to start if another `follow` uses the folder: it would only wait for the leases. */
async function demandAlone(data: string): Promise<void> {
  const call = { socket: operatorSocket(data), path: '/-/live' };
  const isAlone = await askOperator(call).then(
    () => false,
    () => true,
  );
  if (!isAlone) throw new Error(`ingest runs already with its data in ${data}; see --data`);
}

function tellContradiction(message: string): void {
  const remedy = '"ingest run --full-refresh" with its name makes it anew';
  process.stderr.write(
    `The feed and REST disagree: ${message}.\nThe product is left to REST; ${remedy}.\n`,
  );
}

/** Reports on stderr when failures begin, and when they are over. */
function troubleTeller(follower: Follower): () => void {
  let isTold = false;
  return () => {
    const { products, error = '' } = follower.stats;
    const reasons = products.map(({ status, reason }) => (status === 'failed' ? reason : ''));
    const [first] = [...reasons, error].filter(Boolean);
    if ((first !== undefined) === isTold) return;
    isTold = first !== undefined;
    process.stderr.write(isTold ? `${first}; it is tried again.\n` : 'It goes well again.\n');
  };
}

function simulatedSettings({ settings }: FollowOptions, { url }: Exchange): Settings {
  return { ...settings, exchange: 'simulated', baseUrl: url };
}

async function followerOf(
  ingest: Ingest,
  products: readonly string[],
  watch: QualityWatch,
): Promise<Follower> {
  const { clock, bucket } = ingest;
  const live = liveOf(ingest, { products });
  const { ratePerSecond } = bucket.stats;
  const perSlice = (ratePerSecond * (live === undefined ? sliceMs : liveSliceMs)) / 1000;
  const pagesMax = Math.max(10, Math.floor(perSlice / Math.max(1, products.length)));
  return new Follower({
    products,
    harvester: ingest.harvester({ products, pagesMax }),
    filler: ingest.harvester({ products, fillsGaps: true }),
    transformer: await ingest.transformer(),
    live,
    onTable: (signal) => watch.look(signal),
    joinRaw: rawJoinerOf(ingest),
    clock,
  });
}

/** Opens the exchange's feed, if it has one and the settings want it. */
function liveOf(ingest: Ingest, request: HarvestRequest): LiveTrades | undefined {
  const { connector, settings, clock, random, bucket } = ingest;
  const { feed: form } = connector;
  if (form === undefined || settings.feed === 'off') return undefined;
  const { products } = request;
  const feed = new Feed({ form, products, clock, random });
  const harvester = ingest.liveHarvester(liveConnector(connector, feed), request);
  // A comparison takes two requests, and all comparisons a quarter of the rate.
  const compareMs = Math.max(30_000, (8_000 * products.length) / bucket.stats.ratePerSecond);
  const onContradiction = tellContradiction;
  return new LiveTrades({ ...ingest, feed, harvester, products, compareMs, onContradiction });
}

/** Makes a function that joins raw files that are in the table, continuing for each product. */
function rawJoinerOf(ingest: Ingest): (signal: AbortSignal) => Promise<void> {
  const joinedTo = new Map<string, number>();
  return async (signal) => {
    const { products } = (await ingest.table()).manifest;
    for (const of of products.filter(({ exchange }) => exchange === ingest.connector.name)) {
      const name = sourceName(of);
      const range = { after: joinedTo.get(name) ?? 0, upTo: of.mergedTo };
      joinedTo.set(name, await joinRawFiles(of, range, ingest, signal));
    }
  };
}

async function serverOf(
  ingest: Ingest,
  follower: Follower,
  watch: QualityWatch,
  remote: OperatorRemote | undefined,
  exchange: Exchange | undefined,
): Promise<HttpServer> {
  const { settings, bucket, breaker, clock } = ingest;
  const panel = new Panel();
  panel.watch('follower', follower);
  panel.watch('quality', watch);
  panel.watch('bucket', bucket);
  panel.watch('breaker', breaker);
  if (exchange !== undefined) panel.watch('simulated exchange', exchange);
  const { host, port = defaultPort, data } = settings;
  const operator = {
    panel,
    ready: [ingest.database],
    socket: operatorSocket(data),
    remote,
    config: {
      values: { ...settings },
      shown: visible,
    },
  };
  const server = await createServer({ host, port, live: {}, operator, clock });
  const history = new FollowHistory();
  const read = () => viewOf(ingest, follower.stats, history);
  const shown = new State(read());
  server.app.livePage('/', followPage(shown));
  server.app.get('/report', (_request, reply) => {
    if (watch.last === undefined)
      return reply.code(404).send('There is no table of trades yet: load it again in a minute.\n');
    // The page is self-contained, with inline styles.
    const policy = "default-src 'none'; style-src 'unsafe-inline'";
    void reply.header('content-security-policy', policy).type('text/html; charset=utf-8');
    return reply.send(qualityPage(watch.last, undefined, '/'));
  });
  server.app.get('/quality/metrics', (_request, reply) => {
    const families = watch.last === undefined ? [] : qualityMetrics(watch.last);
    return reply.type('text/plain; version=0.0.4; charset=utf-8').send(exposition(families));
  });
  const tell = troubleTeller(follower);
  const run = async () => {
    shown.update(read);
    tell();
  };
  const showing = every({ name: 'page', periodMs: showMs, run });
  server.app.addHook('onReady', async () => showing.start());
  server.app.addHook('onClose', () => showing.close());
  return server;
}

function remoteOf(settings: Settings): OperatorRemote | undefined {
  const { host, operatorPort: port, operatorToken: token } = settings;
  if (port === undefined) return undefined;
  if (token === undefined) throw new UsageError('--operator-port: needs --operator-token');
  return { host, port, token };
}

function greet(
  { connector, settings }: Ingest,
  { url }: HttpServer,
  products: readonly string[],
  exchange: Exchange | undefined,
): void {
  const what =
    exchange === undefined ? connector.name : 'a SIMULATED exchange, its trades are made up';
  process.stdout.write(`Ingest is ready at ${url}, and follows ${products.join(', ')} of ${what}
(${connector.baseUrl}); its data are in ${settings.data}
`);
}

const stepUs = 250_000;
const dayUs = 86_400_000_000;

/** Starts an exchange for this data folder; a later start continues the same history. */
async function startSimulation(startUs: number): Promise<Exchange> {
  const nowUs = Math.floor(wallClock.now() * 1000);
  return await startExchange({
    products: simulatedProducts.map((id) => {
      const trades = Math.max(0, Math.floor((nowUs - startUs) / stepUs));
      return { id, trades, startUs, stepUs, growthPerSecond: 1e6 / stepUs };
    }),
    rate: { ratePerSecond: 10, burst: 15 },
    latency: { meanMs: 150 },
    trouble: { error: 0.01, reset: 0.002, truncated: 0.002 },
  });
}

/** Returns the time of its first trade: 6 hours before the first start. */
async function beginning(data: string): Promise<number> {
  try {
    const { startUs } = JSON.parse(await readFile(simulationFile(data), 'utf8'));
    if (Number.isSafeInteger(startUs)) return startUs;
  } catch {}
  return Math.floor(wallClock.now() * 1000 - dayUs / 4);
}

/** Saves the time of the first trade for later starts. */
async function noteBeginning(data: string, startUs: number): Promise<void> {
  const path = simulationFile(data);
  await makeDirectories(data);
  const options = { temporary: `${path}.tmp` };
  await using _file = await replaceFile(path, JSON.stringify({ startUs }), options);
}

function simulationFile(data: string): string {
  return join(data, 'simulation.json');
}
