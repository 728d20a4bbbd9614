import { seededRandom } from 'spillway';
import type { Connections } from './connections.ts';

/** Fields of a worker's task that the server tells the bench. */
export interface SeededTask {
  readonly run_id: string;
  readonly task_id: number;
  readonly worker_info: { readonly unique_key: string; readonly username: string };
}

export const endpoints = ['beat', 'request_version', 'update_task', 'request_task'] as const;
export type Endpoint = (typeof endpoints)[number];

/**
 * Requests a second of 9,423 workers, as published: the last one is the peak of a burst, as nothing
 * else is said of it.
 */
const mix: readonly (readonly [Endpoint, number])[] = [
  ['beat', 83],
  ['request_version', 18.1],
  ['update_task', 7.4],
  ['request_task', 20],
];

/** Pairs of one batch; they favour nobody, so that no test ends. */
const batchPairs = [1, 3, 4, 3, 1];

/** Workers that take turns in what they send; those that ask for tasks have none. */
export class Workers {
  readonly #connections: Connections;
  readonly #tasks: readonly SeededTask[];
  readonly #random = seededRandom(3);
  readonly #batches: Uint32Array;
  /** Their last task is over when they ask again, so that the number of active ones stays. */
  readonly #askers: readonly string[];
  #asker = 0;
  #sender = 0;

  constructor(connections: Connections, tasks: readonly SeededTask[], askers: number) {
    this.#connections = connections;
    this.#tasks = tasks;
    this.#batches = new Uint32Array(tasks.length);
    this.#askers = Array.from({ length: askers }, (_, at) => {
      const { worker_info } = this.#task(at);
      const unique_key = worker_info.unique_key.replace(/^\w+/, `zz${at.toString(36)}`);
      return JSON.stringify({
        password: 'secret',
        worker_info: { ...worker_info, unique_key },
      });
    });
  }

  /** Sends the next request of the mix; which it was, and what it took the server, in us. */
  async next(): Promise<{ readonly endpoint: Endpoint; readonly us: number }> {
    const endpoint = this.#endpoint();
    return { endpoint, us: await this.send(endpoint) };
  }

  /** Sends one request; gives what it took the server, in us. */
  async send(endpoint: Endpoint): Promise<number> {
    const body = this.#body(endpoint);
    const answer = await this.#connections.post(`/api/${endpoint}`, body);
    const { duration, error } = JSON.parse(answer) as { duration: number; error?: string };
    if (error !== undefined) throw new Error(`${endpoint}: ${error}`);
    return duration * 1e6;
  }

  #endpoint(): Endpoint {
    let left = this.#random() * mix.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [endpoint, weight] of mix) {
      left -= weight;
      if (left < 0) return endpoint;
    }
    return 'beat';
  }

  #body(endpoint: Endpoint): string {
    if (endpoint === 'request_task') {
      this.#asker = (this.#asker + 1) % this.#askers.length;
      return this.#askers[this.#asker] as string;
    }
    // One after the other: two updates of one task under way could overtake each other.
    this.#sender = (this.#sender + 1) % this.#tasks.length;
    const at = this.#sender;
    const { run_id, task_id, worker_info } = this.#task(at);
    const password = 'secret';
    if (endpoint === 'request_version') {
      return JSON.stringify({ password, worker_info: { username: worker_info.username } });
    }
    const named = { password, worker_info, run_id, task_id };
    return JSON.stringify(endpoint === 'beat' ? named : { ...named, stats: this.#played(at) });
  }

  /** All that a worker has played after one more batch. */
  #played(at: number): object {
    const batches = (this.#batches[at] as number) + 1;
    this.#batches[at] = batches;
    const pentanomial = batchPairs.map((pairs) => pairs * batches);
    const [ll, ld, even, wd, ww] = pentanomial as [number, number, number, number, number];
    const draws = ld + 2 * even + wd;
    const [wins, losses] = [wd + 2 * ww, ld + 2 * ll];
    return { wins, losses, draws, crashes: 0, time_losses: 0, pentanomial };
  }

  #task(at: number): SeededTask {
    return this.#tasks[at % this.#tasks.length] as SeededTask;
  }
}
