import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  BoundedMap,
  type Clock,
  type CloseOptions,
  type Every,
  every,
  type Part,
  SingleFlight,
  type Task,
} from 'spillway';
import type { Database } from 'spillway-sql';
import type { Dispatcher } from 'undici';
import { fleetError } from '../errors.ts';
import {
  Github,
  GithubBudget,
  type GithubBudgetState,
  type GithubOptions,
} from '../outside/github.ts';
import { OutsideHost, outsideDispatcher, type ProxyVariables } from '../outside/outside-host.ts';
import { patterns } from '../protocol/patterns.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { systemUser } from '../world/records.ts';
import { Books, readBookList } from './books.ts';
import { sweepDrafts } from './draft-file.ts';
import { type Net, Nets } from './nets.ts';
import { Pgns } from './pgns.ts';

export interface FleetFilesOptions {
  readonly database: Database<FleetSchema>;
  /** Holds the folders `pgns`, `nets` and `books`; made if it is not there. */
  readonly folder: string;
  /** Access to GitHub. @default none: all that it knows is given by hand */
  readonly github?: Omit<GithubOptions, 'dispatcher' | 'clock'> | undefined;
  /** Address from which missing nets are fetched by name. @default none */
  readonly netsUrl?: string | undefined;
  /** Variables with `HTTP_PROXY` and the like. @default none: calls go directly */
  readonly proxy?: ProxyVariables | undefined;
  /** Called when a background job fails; the job runs again at its next time. */
  readonly onFailure: (job: string, error: unknown) => void;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
}

/** Intervals of the jobs: reload stored books, ask GitHub for new ones, prune old games. */
const reloadMs = 60_000;
const refreshMs = 900_000;
const pruneMs = 3_600_000;
const netMsMax = 300_000;
/** Time until a net that was not found is looked for again, and how many such nets are known. */
const missingMs = 60_000;
const missingMax = 1_000;
const listName = 'books.json';

/** Games, nets and books, which lie in files, and the hosts that more of them come from. */
export class FleetFiles implements Part {
  readonly name = 'files';
  readonly pgns: Pgns;
  readonly nets: Nets;
  readonly books: Books;
  readonly github: Github | undefined;
  readonly #options: FleetFilesOptions;
  readonly #dispatcher: Dispatcher | undefined;
  readonly #netHost: OutsideHost | undefined;
  /** Nets that are being downloaded; the host's lane bounds how many. */
  readonly #coming = new SingleFlight<boolean>();
  /** Times at which nets were last looked for in vain. */
  readonly #missing = new BoundedMap<string, number>({ countMax: missingMax, first: 'oldest' });
  readonly #jobs: Every[] = [];

  constructor(options: FleetFilesOptions) {
    const { database, folder, github, netsUrl, proxy = {}, clock } = options;
    this.#options = options;
    this.pgns = new Pgns({ folder: join(folder, 'pgns'), database, clock });
    this.nets = new Nets({ folder: join(folder, 'nets'), database, clock });
    this.books = new Books(database);
    if (github === undefined && netsUrl === undefined) return;
    const dispatcher = outsideDispatcher(proxy);
    this.#dispatcher = dispatcher;
    this.github = github && new Github({ ...github, dispatcher, clock });
    const host = { name: 'nets', dispatcher, attemptMsMax: netMsMax, clock };
    this.#netHost = netsUrl === undefined ? undefined : new OutsideHost({ ...host, url: netsUrl });
  }

  get stats(): { readonly books: number; readonly github: Github['stats'] | undefined } {
    return { books: this.books.books.size, github: this.github?.stats };
  }

  /** The remaining rate limit of GitHub; an untouched one if GitHub is not used. */
  get budget(): GithubBudgetState {
    return this.github?.budget ?? new GithubBudget(this.#options.clock).state;
  }

  async start(): Promise<void> {
    const { clock, folder, onFailure } = this.#options;
    // Drafts that a crash left are removed before new ones are made.
    for (const name of ['pgns', 'nets']) await sweepDrafts(join(folder, name), clock.now());
    await this.books.reload();
    const taken = this.#takeUp(join(folder, 'books'));
    await taken.catch((error: unknown) => this.#options.onFailure('take up books', error));
    const job = (name: string, periodMs: number, run: Task<unknown>, atStart = false) => {
      const onError = (error: unknown) => onFailure(name, error);
      const part = every({ name, periodMs, run, atStart, onError, clock });
      part.start();
      this.#jobs.push(part);
    };
    job('reload books', reloadMs, () => this.books.reload());
    job('prune games', pruneMs, () => this.pgns.prune());
    // At once, so that the first run of a new server finds its book.
    if (this.github !== undefined)
      job('refresh books', refreshMs, (signal) => this.refreshBooks(signal), true);
  }

  async close(options?: CloseOptions): Promise<void> {
    const closed = Promise.all(this.#jobs.map((job) => job.close(options)));
    // This ends calls to GitHub that are under way.
    await this.#dispatcher?.destroy();
    await closed;
  }

  /** Stores what GitHub's list of books says. */
  async refreshBooks(signal?: AbortSignal): Promise<void> {
    const books = await this.github?.books(signal);
    if (books !== undefined) await this.books.store(books);
  }

  /** Downloads a net; throws `RECORD_UNKNOWN` if the host does not have it. */
  async fetchNet(name: string, user: string, signal?: AbortSignal): Promise<Net> {
    const missing = () => fleetError('RECORD_UNKNOWN', `The network ${name} does not exist`);
    if (this.#netHost === undefined) throw missing();
    return this.#netHost.get({ path: [name], signal }, (answer) => {
      if (answer.statusCode !== 200) throw missing();
      return this.nets.receive(answer.body, { user, name });
    });
  }

  /** True if a net is here or could be downloaded; concurrent callers share one download. */
  async obtainNet(name: string, signal?: AbortSignal): Promise<boolean> {
    if (await this.nets.has(name, signal)) return true;
    if (this.#netHost === undefined || !patterns.netName.test(name)) return false;
    if (this.#options.clock.now() - (this.#missing.get(name) ?? -Infinity) < missingMs)
      return false;
    return this.#coming.run(name, () => this.#bring(name), { signal });
  }

  /** Takes no signal: a download goes on without callers, since they will ask again. */
  async #bring(name: string): Promise<boolean> {
    try {
      await this.fetchNet(name, systemUser);
      return true;
    } catch (error) {
      if (!['RECORD_UNKNOWN', 'REQUEST_REFUSED'].includes(Object(error).code)) throw error;
      this.#missing.set(name, this.#options.clock.now());
      return false;
    }
  }

  /** Adds the books of a list in the folder, and files of books that are not known yet. */
  async #takeUp(folder: string): Promise<void> {
    const names = await readdir(folder).catch((): string[] => []);
    if (names.includes(listName)) {
      const list = JSON.parse(await readFile(join(folder, listName), 'utf8'));
      await this.books.store(readBookList(list));
    }
    const isNew = (name: string) => /\.(epd|pgn)$/.test(name) && this.books.sri(name) === undefined;
    for (const name of names.filter(isNew)) await this.books.add(join(folder, name));
  }
}
