import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Texts } from './texts.ts';

/** The result of a series of requests; times in milliseconds. */
export interface Stretch {
  readonly taken: readonly number[];
  readonly p50: number;
  readonly p95: number;
  readonly perSecond: number;
  readonly cpuSeconds: number;
}

export interface Usage {
  readonly cpuUs: number;
  /** The time that the event loop was busy, in milliseconds. */
  readonly loopMs: number;
  readonly rssBytes: number;
  readonly recycled: number;
  readonly training: {
    readonly isRunning: boolean;
    /** CPU time of the thread that trains, so far. */
    readonly cpuMs: number;
  };
}

/** A server in a process of its own, and its clients. */
export class Served {
  readonly #child: ChildProcess;
  readonly #texts = new Texts();
  readonly #ended = new AbortController();
  #place = { url: '', key: '' };

  static async start(program: string, words: readonly string[], more = {}): Promise<Served> {
    const served = new Served(fork(program, words));
    served.#place = await served.ask({ do: 'serve', ...more });
    return served;
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.once('exit', (code) => {
      this.#ended.abort(new Error(`the server ended with code ${code}`));
    });
  }

  /** The address of the server, and its user's key. */
  get place(): { readonly url: string; readonly key: string } {
    return this.#place;
  }

  /** Rejects if the process ends before it answers. */
  async ask<Answer>(order: object): Promise<Answer> {
    this.#child.send(order);
    const { signal } = this.#ended;
    const [{ answer }] = (await once(this.#child, 'message', { signal })) as [{ answer: Answer }];
    return answer;
  }

  /** Closes the server and opens it again. */
  async restart(): Promise<void> {
    this.#place = await this.ask({ do: 'restart' });
  }

  /** Ends the process. */
  async end(): Promise<void> {
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }

  usage(): Promise<Usage> {
    return this.ask<Usage>({ do: 'usage' });
  }

  async call(path: string, body?: object): Promise<unknown> {
    const { url, key } = this.#place;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, { headers, ...sent });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return await response.json();
  }

  /** Runs clients that send one text after another, until this many were answered. */
  async rank(clients: number, count: number): Promise<Stretch> {
    const taken: number[] = [];
    let begun = 0;
    const client = async (): Promise<void> => {
      while (begun < count) {
        begun += 1;
        const text = this.#texts.next();
        const startedAt = performance.now();
        await this.call('/rank', { text });
        taken.push(performance.now() - startedAt);
      }
    };
    const before = await this.usage();
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: clients }, client));
    const seconds = (performance.now() - startedAt) / 1_000;
    const cpuSeconds = ((await this.usage()).cpuUs - before.cpuUs) / 1e6 / count;
    const sorted = taken.toSorted((one, other) => one - other);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
    return { taken, p50: at(0.5), p95: at(0.95), perSecond: count / seconds, cpuSeconds };
  }
}
