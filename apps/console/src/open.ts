import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Clock, every, systemClock } from 'spillway';
import { createServer, operatorSocket, State } from 'spillway-http';
import { EventLog } from './events.ts';
import type { Launcher } from './launcher.ts';
import { addPages } from './pages/pages.ts';
import { ServiceWatch } from './service-watch.ts';

export interface ConsoleOptions {
  /** The folder that holds one data folder for each service. */
  readonly data: string;
  /** Services of other machines, by name. @default none */
  readonly remotes?: Readonly<Record<string, Remote>> | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** @default 8500 */
  readonly port?: number | undefined;
  /** Milliseconds from one look to the next. @default 1_000 */
  readonly lookMs?: number | undefined;
  /** The program that started the services, if it can be talked to. @default none */
  readonly launcher?: Launcher | undefined;
  readonly clock?: Clock | undefined;
}

/** The operator port of a service on another machine. */
export interface Remote {
  /** Like `http://10.0.0.7:9000`. */
  readonly url: string;
  readonly token: string;
}

/** The state of all services, which the pages show. */
export interface View {
  readonly services: readonly ServiceWatch[];
  readonly events: EventLog;
  readonly launcher?: Launcher | undefined;
}

const servicesMax = 50;
/** Looks from one search for new services to the next. */
const searchEvery = 5;

/** Every look changes every page, so that old versions of one are of little use. */
const live = { rendersMax: 2, lengthMax: 4_000_000 };

/** A console that runs. */
export interface Console extends AsyncDisposable {
  /** Makes a new address that opens the console once. */
  openUrl(): string;
}

/** Starts the console on all services that have their data below one folder. */
export async function openConsole(options: ConsoleOptions): Promise<Console> {
  const { data, host = '127.0.0.1', port = 8500, lookMs = 1_000, clock = systemClock } = options;
  const { launcher } = options;
  const watches = new Map<string, ServiceWatch>();
  const events = new EventLog();
  for (const [name, place] of Object.entries(options.remotes ?? {})) {
    watches.set(name, new ServiceWatch({ name, place, log: events, clock }));
  }
  let looks = 0;
  const look = async (signal: AbortSignal) => {
    if (looks % searchEvery === 0) await findServices(data, { watches, log: events, clock });
    looks += 1;
    await Promise.all([...watches.values()].map((watch) => watch.look(signal)));
    shown.update(() => looks);
  };
  const shown = new State(0);
  const ownFolder = join(data, 'console');
  const operator = { socket: operatorSocket(ownFolder) };
  // Forms are of one run of the console: its links and sessions end with it too.
  const csrf = { keys: [randomBytes(32)] };
  const server = await createServer({ host, port, live, operator, csrf, clock });
  const tokens = new Set<string>();
  const view = (): View => ({
    services: [...watches.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    events,
    launcher,
  });
  addPages(server.app, { shown, view, tokens });
  const openUrl = () => {
    const token = randomBytes(24).toString('base64url');
    tokens.add(token);
    return `${server.url}/?token=${token}`;
  };
  // For the user of this machine, by `console open`.
  server.operator.app.post('/-/open', () => ({ url: openUrl() }));
  const looking = every({ name: 'look', periodMs: lookMs, run: look, atStart: true, clock });
  await server.start({ signal: new AbortController().signal });
  looking.start();
  return {
    openUrl,
    async [Symbol.asyncDispose]() {
      await looking.close();
      await server.close();
    },
  };
}

export interface FindOptions {
  /** The services that are known, by name. */
  readonly watches: Map<string, ServiceWatch>;
  readonly log: EventLog;
  readonly clock?: Clock | undefined;
}

/** Adds each service with a socket in a folder below this one; forgets one without its folder. */
export async function findServices(data: string, options: FindOptions): Promise<void> {
  const { watches, log, clock } = options;
  for (const { name, folder } of watches.values()) {
    if (folder !== undefined && !existsSync(folder)) watches.delete(name);
  }
  for await (const found of glob('*/operator.sock', { cwd: data })) {
    const name = basename(dirname(found));
    if (watches.has(name) || watches.size >= servicesMax) continue;
    const folder = join(data, name);
    const place = { socket: operatorSocket(folder) };
    watches.set(name, new ServiceWatch({ name, place, folder, log, clock }));
  }
}
