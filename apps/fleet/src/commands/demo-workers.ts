import { randomUUID } from 'node:crypto';
import { Command, InvalidArgumentError } from 'commander';
import { deadline, type Random, SingleFlight, systemClock, systemRandom } from 'spillway';
import { pause } from 'spillway/internal';
import { StopSignal, UsageError } from 'spillway-cli';
import { askOperator, operatorSocket } from 'spillway-http';
import { sampleBooks, sampleRuns } from '../operations/sample.ts';
import { scoreOf } from '../statistics/elo.ts';
import { randomPassword } from '../users/password.ts';
import type { Stats } from '../world/records.ts';
import { type AssignedTask, demoUsername as username } from '../world/request-task.ts';
import { gamesOf, zeroStats } from '../world/world.ts';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';
import type { Operator } from './operator.ts';

/** Milliseconds from one batch of games to the next. */
const batchMs = 1_000;
/** Longest wait for an answer of the server, in milliseconds. */
const answerMsMax = 30_000;
/** Elo by which the new engine is stronger. */
const elo = 5;

/** `fleet demo-workers`: a busy server to look at. */
export function demoWorkersCommand(): Command {
  const command = new Command('demo-workers')
    .description('simulated workers on a sequential test of their own; its results are made up')
    .option('--count <number>', 'workers, from 1 to 1000', workerCount, 20)
    .addHelpText('after', examplesOf('demo-workers', 'demo-workers --count 100'))
    .action(async ({ count }: { readonly count: number }, self: Command) => {
      using stop = new StopSignal({ left: () => 'Ended at once.' });
      const settings = settingsOf(self);
      const url = await serverUrl(settings.data);
      const { openOperator } = await import('./operator.ts');
      await using operator = await openOperator(settings);
      const workers = new DemoWorkers({ url, operator, signal: stop.signal });
      await workers.open();
      process.stdout.write(`${count} simulated workers play for ${url} until Ctrl-C.\n`);
      await workers.run(count);
    });
  return withSettings(command);
}

function workerCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= 1_000) return count;
  throw new InvalidArgumentError('It must be an integer from 1 to 1000.');
}

async function serverUrl(data: string): Promise<string> {
  const call = { socket: operatorSocket(data), path: '/-/stats' };
  const answer = await askOperator(call).catch((cause: unknown) => {
    const how = 'start it with "fleet serve", or name its folder with --data';
    throw new UsageError(`no server runs with its data in ${data}; ${how}`, { cause });
  });
  return JSON.parse(answer.text).url;
}

interface DemoOptions {
  readonly url: string;
  readonly operator: Operator;
  readonly signal: AbortSignal;
}

type TaskReply = Partial<AssignedTask> & { readonly task_alive?: boolean };

/** Workers that speak as the official one does, and make their results up. */
class DemoWorkers {
  readonly #options: DemoOptions;
  readonly #password = randomPassword();
  /** The check for an open run, so that the workers add only one. */
  readonly #adding = new SingleFlight<void>();

  constructor(options: DemoOptions) {
    this.#options = options;
  }

  /** Makes the account of the workers, or gives it a new password. */
  async open(): Promise<void> {
    const { operator } = this.#options;
    const password = this.#password;
    const users = (await operator.call('user-list', {})) as { username: string }[];
    const isKnown = users.some((user) => user.username === username);
    if (isKnown) await operator.call('user-password', { username, password });
    else await operator.call('user-add', { username, password, machines: 1_000 });
    await operator.call('book-add', { books: sampleBooks });
  }

  /** Works until the signal aborts; each worker gives its task back then. */
  async run(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#work(randomUUID())));
  }

  async #work(unique_key: string): Promise<void> {
    const { signal } = this.#options;
    const info = { ...machine, unique_key };
    while (!signal.aborted) {
      const reply = await this.#post('request_task', info);
      if (reply?.run !== undefined) await this.#play(reply as AssignedTask, info);
      else if (!signal.aborted) {
        // Without an answer no run can be added.
        if (reply !== undefined) await this.#demandRun();
        await this.#pause();
      }
    }
  }

  async #play({ run, task_id }: AssignedTask, info: object): Promise<void> {
    const task = { run_id: run._id, task_id };
    const pairs = run.args.sprt?.batch_size ?? 1;
    let stats = zeroStats();
    while (gamesOf(stats) < run.my_task.num_games) {
      await this.#pause();
      if (this.#options.signal.aborted) {
        await this.#post('failed_task', info, { ...task, message: 'The demo has ended' });
        return;
      }
      stats = playPairs(stats, pairs, elo, systemRandom);
      const reply = await this.#post('update_task', info, { ...task, stats });
      if (reply?.task_alive !== true) return;
    }
  }

  /** Adds a run if the last one is finished; one, however many workers ask. */
  async #demandRun(): Promise<void> {
    const { operator } = this.#options;
    const add = async () => {
      const open = (await operator.call('run-list', { limit: 1_000 })) as { username: string }[];
      if (open.some((run) => run.username === username)) return;
      const info = 'Demo: simulated workers, made-up results.';
      const sprt = { elo0: 0, elo1: 5 };
      const run = { ...sampleRuns[0], num_games: undefined, sprt, new_tag: 'demo', info };
      await operator.call('run-add', { username, run, approve: true });
    };
    await this.#adding.run('', add).catch((error: unknown) => {
      // A server that is gone or starting comes back; a refusal ends the command.
      if (Object(error).status < 500) throw error;
    });
  }

  async #pause(): Promise<void> {
    await pause(systemClock, batchMs, this.#options.signal).catch(() => {});
  }

  /** The answer of an endpoint; undefined if there was none, as while the server restarts. */
  async #post(endpoint: string, info: object, more: object = {}): Promise<TaskReply | undefined> {
    const body = JSON.stringify({ password: this.#password, worker_info: info, ...more });
    const headers = { 'content-type': 'application/json' };
    // Without the signal of the command, after which each worker still gives its task back.
    using limit = deadline(systemClock, answerMsMax);
    const sent = { method: 'POST', headers, body, signal: limit.signal };
    const url = `${this.#options.url}/api/${endpoint}`;
    const answer = await fetch(url, sent).catch(() => undefined);
    if (answer?.status === 401) {
      throw new Error(`the password of ${username} was changed: more demo workers were started`);
    }
    const read = answer?.json() as Promise<TaskReply> | undefined;
    return read?.catch(() => undefined);
  }
}

const machine = {
  uname: 'simulated',
  architecture: ['64bit', 'ELF'],
  concurrency: 1,
  max_memory: 12_000,
  min_threads: 1,
  username,
  version: 325,
  python_version: [3, 11, 7],
  gcc_version: [12, 2, 0],
  compiler: 'g++',
  modified: false,
  worker_arch: 'x86-64-avx2',
  ARCH: '64bit AVX2',
  nps: 628_000,
  near_github_api_limit: false,
};

const drawsAtMost = 0.6;

/** Plays pairs of games, the new engine being so much stronger, and adds them to the totals. */
export function playPairs(totals: Stats, pairs: number, strength: number, random: Random): Stats {
  const score = scoreOf(strength);
  const drawn = Math.min(drawsAtMost, 1.8 * Math.min(score, 1 - score));
  const won = score - drawn / 2;
  const sum = { ...totals, pentanomial: [...totals.pentanomial] };
  const play = (): number => {
    const roll = random();
    const result = roll < won ? 'wins' : roll < won + drawn ? 'draws' : 'losses';
    sum[result] += 1;
    return result === 'wins' ? 2 : result === 'draws' ? 1 : 0;
  };
  for (let pair = 0; pair < pairs; pair += 1) {
    const points = play() + play();
    sum.pentanomial[points] = (sum.pentanomial[points] as number) + 1;
  }
  return sum;
}
