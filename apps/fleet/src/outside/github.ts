import type { Clock } from 'spillway';
import type { Dispatcher } from 'undici';
import { fleetError } from '../errors.ts';
import { type BookEntry, readBookList } from '../files/books.ts';
import { patterns } from '../protocol/patterns.ts';
import { OutsideHost } from './outside-host.ts';

export interface GithubOptions {
  /** Address of the API. @default 'https://api.github.com' */
  readonly apiUrl?: string | undefined;
  /** Address of files. @default 'https://raw.githubusercontent.com' */
  readonly rawUrl?: string | undefined;
  /** Grants a larger budget. @default none */
  readonly token?: string | undefined;
  readonly dispatcher: Dispatcher;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
}

/** A commit by its branch, tag or sha, and a repository that has it. */
export interface CommitRef {
  readonly repo: string;
  readonly ref: string;
}

const sha = /^[0-9a-f]{40}$/;
const repositoryFreshMs = 600_000;
const benchFreshMs = 60_000;
const masterFreshMs = 600_000;

/** Client for GitHub. All values that it looks up can be given by hand instead. */
export class Github {
  readonly #budget: GithubBudget;
  readonly #api: OutsideHost;
  readonly #raw: OutsideHost;

  constructor(options: GithubOptions) {
    const { token, clock, dispatcher } = options;
    const agent = { 'user-agent': 'spillway-fleet' };
    this.#budget = new GithubBudget(clock);
    this.#api = new OutsideHost({
      name: 'github',
      url: options.apiUrl ?? 'https://api.github.com',
      headers: {
        ...agent,
        accept: 'application/vnd.github+json',
        ...(token && { authorization: `Bearer ${token}` }),
      },
      note: (headers) => this.#budget.note(headers),
      dispatcher,
      clock,
    });
    this.#raw = new OutsideHost({
      name: 'github-files',
      url: options.rawUrl ?? 'https://raw.githubusercontent.com',
      headers: agent,
      dispatcher,
      clock,
    });
  }

  get stats() {
    const hosts = { api: this.#api.stats, raw: this.#raw.stats };
    return { budget: this.budget, ...hosts, cache: this.#api.cacheStats };
  }

  /** Answer to `/api/rate_limit`. */
  get budget(): GithubBudgetState {
    return this.#budget.state;
  }

  /** The commit that a branch, a tag or a sha stands for; undefined if there is none. */
  commit(repo: string, ref: string, signal?: AbortSignal) {
    return this.#api.ask({
      path: ['repos', ...ownerAndName(repo), 'commits', ref],
      freshMs: sha.test(ref) ? Infinity : 0,
      parse: (body) => {
        const found = json(body);
        return { sha: shaOf(found.sha), message: text(Object(found.commit).message) };
      },
      signal,
    });
  }

  /** The newest bench in the latest commit messages of a branch; undefined if there is none. */
  latestBench(repo: string, ref: string, signal?: AbortSignal): Promise<string | undefined> {
    return this.#api.ask({
      path: ['repos', ...ownerAndName(repo), 'commits'],
      query: { sha: ref, per_page: '100' },
      freshMs: benchFreshMs,
      parse: (body) => {
        const messages = Object.values(json(body)).map((one) =>
          text(Object(Object(one).commit).message),
        );
        return messages.map((message) => commitText(message).signature).find(Boolean);
      },
      signal,
    });
  }

  /** Commit, bench and default nets of a branch; undefined if there is none. */
  async branch(repo: string, ref: string, signal?: AbortSignal) {
    const commit = await this.commit(repo, ref, signal);
    if (commit === undefined) return undefined;
    const nets = await this.nets(repo, commit.sha, signal);
    return { ...commit, ...commitText(commit.message), nets };
  }

  /** The default nets of an engine's source, from where old and new versions name them. */
  async nets(repo: string, sha: string, signal?: AbortSignal): Promise<string[]> {
    for (const path of ['src/evaluate.h', 'src/ucioption.cpp']) {
      const source = await this.file(repo, sha, path, signal);
      const names = netNames(source ?? '');
      if (names.length > 0) return names;
    }
    return [];
  }

  file(repo: string, ref: string, path: string, signal?: AbortSignal): Promise<string | undefined> {
    return this.#raw.ask({
      path: [...ownerAndName(repo), ref, ...path.split('/')],
      freshMs: sha.test(ref) ? Infinity : 0,
      parse: String,
      signal,
    });
  }

  /** The present address of a repository, and that of the root of its forks. */
  repository(repo: string, signal?: AbortSignal) {
    return this.#api.ask({
      path: ['repos', ...ownerAndName(repo)],
      freshMs: repositoryFreshMs,
      parse: (body) => {
        const found = json(body);
        const root = Object(found.source ?? found);
        return { url: repoUrl(found.full_name), rootUrl: repoUrl(root.full_name) };
      },
      signal,
    });
  }

  /** The newest commit that both descend from; undefined if GitHub does not know one. */
  mergeBase(one: CommitRef, other: CommitRef, signal?: AbortSignal): Promise<string | undefined> {
    const refs = [one, other].map(({ repo, ref }) => `${ownerAndName(repo)[0]}:${ref}`);
    return this.#api.ask({
      path: ['repos', ...ownerAndName(one.repo), 'compare', refs.join('...')],
      query: { per_page: '1' },
      freshMs: sha.test(one.ref) && sha.test(other.ref) ? Infinity : masterFreshMs,
      parse: (body) => shaOf(Object(json(body).merge_base_commit).sha),
      signal,
    });
  }

  /** The list of books by name; undefined if the repository has none. */
  books(signal?: AbortSignal): Promise<ReadonlyMap<string, BookEntry> | undefined> {
    return this.#raw.ask({
      path: ['official-stockfish', 'books', 'master', 'books.json'],
      freshMs: 0,
      parse: (body) => readBookList(JSON.parse(String(body))),
      signal,
    });
  }
}

/** `owner` and `name` of `https://github.com/owner/name`. */
function ownerAndName(repo: string): string[] {
  if (!patterns.githubRepo.test(repo))
    throw fleetError('REQUEST_REFUSED', `no repository: ${repo}`);
  return repo.split('/').slice(-2);
}

function json(body: Buffer): Readonly<Record<string, unknown>> {
  const value: unknown = JSON.parse(String(body));
  if (typeof value !== 'object' || value === null) throw new TypeError('not an object');
  return value as Readonly<Record<string, unknown>>;
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError('not a text');
  return value;
}

function shaOf(value: unknown): string {
  if (!sha.test(text(value))) throw new TypeError('not a sha');
  return value as string;
}

function repoUrl(name: unknown): string {
  const url = `https://github.com/${text(name)}`;
  if (!patterns.githubRepo.test(url)) throw new TypeError('not a repository');
  return url;
}

/** The rate limit of GitHub, as its answers tell it. */
export type GithubBudgetState = Readonly<typeof unheard>;

/** The rate limit without a token, assumed until the first answer. */
const unheard = {
  limit: 60,
  remaining: 60,
  used: 0,
  /** Time at which it is full again, in UNIX seconds. */
  reset: 0,
  resource: 'core',
  /** Nothing has been heard of it yet. */
  _uninitialized: true,
};

/** Tracks the rate limit by the headers of answers. */
export class GithubBudget {
  readonly #clock: Pick<Clock, 'now'>;
  #state: GithubBudgetState | undefined;

  /** The clock is one of UNIX milliseconds. */
  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  get state(): GithubBudgetState {
    const now = Math.floor(this.#clock.now() / 1000);
    const state = this.#state;
    if (state === undefined) return { ...unheard, reset: now };
    if (now < state.reset) return state;
    return { ...state, remaining: state.limit, used: 0 };
  }

  /** Reads the headers of an answer. */
  note(headers: Readonly<Record<string, string | readonly string[] | undefined>>): void {
    if ((headers['x-ratelimit-resource'] ?? 'core') !== 'core') return;
    const count = (name: string) => {
      const text = headers[`x-ratelimit-${name}`];
      return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
    };
    const limit = count('limit');
    const remaining = count('remaining');
    const reset = count('reset');
    if (limit === undefined || remaining === undefined || reset === undefined) return;
    const used = count('used') ?? limit - remaining;
    this.#state = { limit, remaining, reset, used, resource: 'core', _uninitialized: false };
  }
}

/**
 * Reads the message of an engine's commit: its bench, which is the last `Bench: <6 to 8 digits>`,
 * and the rest as a description.
 */
export function commitText(message: string) {
  const benches = [...message.matchAll(/\bbench\s*:?\s*([1-9]\d{5,7})\b/gi)];
  const last = benches.at(-1);
  if (last === undefined) return { signature: undefined, info: message.trim() };
  const before = message.slice(0, last.index);
  const after = message.slice(last.index + last[0].length);
  return { signature: last[1], info: `${before}${after}`.trim() };
}

/** The nets that an engine's source names as its defaults, each once. */
export function netNames(source: string): string[] {
  const lines = source.split('\n').filter((line) => {
    return line.includes('EvalFileDefaultName') && line.includes('define');
  });
  return [...new Set(lines.flatMap((line) => line.match(/\bnn-[a-f0-9]{12}\.nnue\b/g) ?? []))];
}
