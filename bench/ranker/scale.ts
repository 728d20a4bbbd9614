import { setTimeout as pause } from 'node:timers/promises';
import type { Served } from './served.ts';

/** Times in milliseconds, the 95th percentile of 20; memory in MB. */
export interface Scale {
  /** The first list after a start. */
  readonly first: number;
  readonly vote: number;
  readonly shown: number;
  readonly list: number;
  readonly search: number;
  /** The list of one feed. */
  readonly feed: number;
  readonly memory: number;
  /** The share of time, in %, that the event loop is busy while a user reads now and then. */
  readonly loop: number;
}

const rounds = 20;
/** Pages that an occasional user reads, and the pause between two. */
const quietPages = 10;
const quietMs = 2_000;

/** A user with a browser: keeps its session and sends forms. */
class Visitor {
  readonly #url: string;
  readonly #cookies = new Map<string, string>();
  #token = '';

  constructor(url: string) {
    this.#url = url;
  }

  async page(path: string): Promise<string> {
    const answer = await this.#ask(path, {});
    const text = await answer.text();
    this.#token = /name="_csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';
    // Without the marks of live pages.
    return text.replaceAll(/<!--[[,\]]-->| data-live(?=[ >])/g, '');
  }

  async post(path: string, fields: Readonly<Record<string, string>>): Promise<Response> {
    const body = new URLSearchParams({ _csrf: this.#token, ...fields });
    return await this.#ask(path, { method: 'POST', body });
  }

  async #ask(path: string, options: RequestInit): Promise<Response> {
    const cookie = [...this.#cookies].map((pair) => pair.join('=')).join('; ');
    const headers = { accept: 'text/html', cookie };
    const url = new URL(path, this.#url);
    const answer = await fetch(url, { ...options, headers, redirect: 'manual' });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      this.#cookies.set(name, value);
    }
    return answer;
  }
}

/** Stocks a ranker and measures a reader's actions on it. */
export async function scaled(served: Served, articles: number, ratings: number): Promise<Scale> {
  await served.ask({ do: 'stock', articles: ratings, isRated: true });
  await served.ask({ do: 'stock', articles: articles - ratings, isRated: false });
  await served.restart();
  const { url, key } = served.place;
  const visitor = new Visitor(url);
  await visitor.page('/reader/login');
  await visitor.post('/reader/login', { key });
  const first = await timed(async () => {
    while (!(await visitor.page('/reader')).includes('data-article=')) await pause(100);
  });
  const vote: number[] = [];
  const shown: number[] = [];
  const list: number[] = [];
  const search: number[] = [];
  const feed: number[] = [];
  const { feeds } = (await served.call('/feeds')) as { feeds: { id: string; articles: number }[] };
  // The largest ones.
  feeds.sort((one, other) => other.articles - one.articles);
  for (let at = 0; at < rounds; at += 1) {
    const page = await visitor.page('/reader');
    const ids = [...page.matchAll(/data-article="([\w-]+)"/g)].map(([, id]) => id as string);
    const score = 1 + (at % 10);
    vote.push(await timed(() => served.call('/votes', { article: ids[0], score })));
    shown.push(
      await timed(async () => {
        const answer = await visitor.post(`/articles/${ids[1]}/vote`, {
          score: String(score),
        });
        if (answer.status !== 303) throw new Error(`vote: ${answer.status}`);
        const after = await visitor.page('/reader');
        if (after.includes(`data-article="${ids[1]}"`)) throw new Error('the vote is not shown');
      }),
    );
    list.push(
      await timed(() => visitor.page(`/reader?list=all&sort=newest&show=${40 + 40 * (at % 9)}`)),
    );
    search.push(await timed(() => visitor.page(`/reader?q=w${7 * at}`)));
    const { id } = feeds[at % feeds.length] as (typeof feeds)[number];
    feed.push(await timed(() => visitor.page(`/reader?feed=${id}`)));
  }
  const loop = await quietLoop(served, visitor);
  const memory = (await served.usage()).rssBytes / 1e6;
  const votes = { vote: p95(vote), shown: p95(shown) };
  const lists = { list: p95(list), search: p95(search), feed: p95(feed) };
  return { first, ...votes, ...lists, memory, loop };
}

async function quietLoop(served: Served, visitor: Visitor): Promise<number> {
  const before = await served.usage();
  const startedAt = performance.now();
  for (let at = 0; at < quietPages; at += 1) {
    await visitor.page('/reader');
    await pause(quietMs);
  }
  const busyMs = (await served.usage()).loopMs - before.loopMs;
  return (100 * busyMs) / (performance.now() - startedAt);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function p95(taken: readonly number[]): number {
  const sorted = taken.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN;
}
