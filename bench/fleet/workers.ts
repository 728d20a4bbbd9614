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
 * Requests per second of 9,423 workers, as published. The last one is taken for the peak of a
 * burst, since the source does not explain it.
 */
const mix: readonly (readonly [Endpoint, number])[] = [
  ['beat', 83],
  ['request_version', 18.1],
  ['update_task', 7.4],
  ['request_task', 20],
];

/** Results of one batch of game pairs; they favour neither side, so that no test ends. */
const batchPairs = [1, 3, 4, 3, 1];

/** The answer that the server gives to a request, as far as the bench reads it. */
interface Answer {
  readonly duration: number;
  readonly error?: string;
  readonly info?: string;
  readonly version?: number;
  readonly task_alive?: boolean;
  readonly run?: object;
}

/** True if a request was fulfilled: refusals are quick and must not count as answers. */
const isDone: Readonly<Record<Endpoint, (answer: Answer) => boolean>> = {
  beat: ({ task_alive }) => task_alive === true,
  request_version: ({ version }) => version !== undefined,
  update_task: ({ task_alive }) => task_alive === true,
  request_task: ({ run }) => run !== undefined,
};

/** Workers that take turns in sending requests. */
export class Workers {
  readonly #connections: Connections;
  readonly #tasks: readonly SeededTask[];
  readonly #random = seededRandom(3);
  readonly #batches: Uint32Array;
  /** Workers that end their last task before they ask again, so that as many stay active. */
  readonly #askers: readonly string[];
  /** Workers that all ask at the same moment. */
  readonly #crowd: readonly string[];
  #asker = 0;
  #sender = 0;

  constructor(
    connections: Connections,
    tasks: readonly SeededTask[],
    { askers, crowd }: { readonly askers: number; readonly crowd: number },
  ) {
    this.#connections = connections;
    this.#tasks = tasks;
    this.#batches = new Uint32Array(tasks.length);
    this.#askers = Array.from({ length: askers }, (_, at) => this.#newWorker('zz', at));
    this.#crowd = Array.from({ length: crowd }, (_, at) => this.#newWorker('yy', at));
  }

  /** All of the crowd ask for a task at the same time; gives the share that got none. */
  async rush(): Promise<number> {
    await this.#connections.open(this.#crowd.length);
    const answers = this.#crowd.map((body) => this.#ask('request_task', body));
    const ended = await Promise.allSettled(answers);
    const given = ended.filter(
      (one) => one.status === 'fulfilled' && isDone.request_task(one.value),
    );
    return 1 - given.length / ended.length;
  }

  /** Sends the next request of the mix; returns its kind and the server's time for it, in us. */
  async next(): Promise<{ readonly endpoint: Endpoint; readonly us: number }> {
    const endpoint = this.#endpoint();
    return { endpoint, us: await this.send(endpoint) };
  }

  /** Sends one request; returns the server's time for it, in us. */
  async send(endpoint: Endpoint): Promise<number> {
    const answer = await this.#ask(endpoint, this.#body(endpoint));
    if (!isDone[endpoint](answer)) throw new Error(`${endpoint}: ${JSON.stringify(answer)}`);
    return answer.duration * 1e6;
  }

  async #ask(endpoint: Endpoint, body: string): Promise<Answer> {
    const answer = JSON.parse(await this.#connections.post(`/api/${endpoint}`, body)) as Answer;
    if (answer.error !== undefined) throw new Error(`${endpoint}: ${answer.error}`);
    return answer;
  }

  /** The request for a task of a worker that nobody knows yet. */
  #newWorker(prefix: string, at: number): string {
    const { worker_info } = this.#task(at);
    const unique_key = worker_info.unique_key.replace(/^\w+/, `${prefix}${at.toString(36)}`);
    return JSON.stringify({ password: 'secret', worker_info: { ...worker_info, unique_key } });
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

  /** The results of a worker after one more batch. */
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
