import { randomBytes } from 'node:crypto';
import { glob } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Clock, every, systemClock } from 'spillway';
import { createServer, type HttpServer, operatorSocket, State } from 'spillway-http';
import { EventLog } from './events.ts';
import { addPages } from './pages/pages.ts';
import { ServiceWatch } from './service-watch.ts';

export interface ConsoleOptions {
  /** The folder that holds one data folder for each service. */
  readonly data: string;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** @default 8500 */
  readonly port?: number | undefined;
  /** Milliseconds from one look to the next. @default 1_000 */
  readonly lookMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** The state of all services, which the pages show. */
export interface View {
  readonly services: readonly ServiceWatch[];
  readonly events: EventLog;
}

const servicesMax = 50;
/** Looks from one search for new services to the next. */
const searchEvery = 5;

/** A console that runs: its page, and a way to give somebody entry. */
export class Console implements AsyncDisposable {
  readonly #server: HttpServer;
  readonly #stop: () => Promise<void>;
  readonly #tokens: Set<string>;

  constructor(server: HttpServer, tokens: Set<string>, stop: () => Promise<void>) {
    this.#server = server;
    this.#tokens = tokens;
    this.#stop = stop;
  }

  /** A new address that opens the console once, for whoever has it. */
  openUrl(): string {
    const token = randomBytes(24).toString('base64url');
    this.#tokens.add(token);
    return `${this.#server.url}/?token=${token}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    await this.#server.close();
  }
}

/** Starts the console on all services that have their data below one folder. */
export async function openConsole(options: ConsoleOptions): Promise<Console> {
  const { data, host = '127.0.0.1', port = 8500, lookMs = 1_000, clock = systemClock } = options;
  const watches = new Map<string, ServiceWatch>();
  const events = new EventLog();
  let looks = 0;
  const look = async (signal: AbortSignal) => {
    if (looks % searchEvery === 0) await findServices(data, { watches, log: events, clock });
    looks += 1;
    await Promise.all([...watches.values()].map((watch) => watch.look(signal)));
    await shown.update(() => looks);
  };
  const shown = new State(0);
  const ownFolder = join(data, 'console');
  const operator = { socket: operatorSocket(ownFolder) };
  const server = await createServer({ host, port, live: {}, operator, clock });
  const tokens = new Set<string>();
  const view = (): View => ({
    services: [...watches.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    events,
  });
  addPages(server.app, { shown, view, tokens });
  operatorLink(server, tokens);
  const looking = every({ name: 'look', periodMs: lookMs, run: look, atStart: true, clock });
  await server.start({ signal: new AbortController().signal });
  looking.start();
  return new Console(server, tokens, () => looking.close());
}

/** Lets the command of the machine's user make a new link. */
function operatorLink(server: HttpServer, tokens: Set<string>): void {
  server.operator.app.post('/-/open', () => {
    const token = randomBytes(24).toString('base64url');
    tokens.add(token);
    return { url: `${server.url}/?token=${token}` };
  });
}

export interface FindOptions {
  /** The services that are known, by name. */
  readonly watches: Map<string, ServiceWatch>;
  readonly log: EventLog;
  readonly clock?: Clock | undefined;
}

/** Adds each service with a socket in a folder below this one. */
export async function findServices(data: string, options: FindOptions): Promise<void> {
  const { watches, log, clock } = options;
  for await (const found of glob('*/operator.sock', { cwd: data })) {
    const name = basename(dirname(found));
    if (watches.has(name) || watches.size >= servicesMax) continue;
    watches.set(name, new ServiceWatch({ name, socket: join(data, found), log, clock }));
  }
}
