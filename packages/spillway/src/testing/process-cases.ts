import assert from 'node:assert/strict';
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';
import { systemClock } from '../base/clock.ts';
import { pause } from '../wait/wait-queue.ts';
import { bucketRule, gateLimit, LoopDelays, type TakeReport, takeMs } from './process-role.ts';

/** A program that opens the shared store and then calls `playProcessRole`. */
export interface ProcessSubject {
  readonly program: string;
  /** Settings that the program needs to find the store. */
  readonly args: readonly string[];
}

/** One guarantee that must hold for real processes on any store that they share. */
export interface ProcessCase {
  readonly name: string;
  check(subject: ProcessSubject): Promise<void>;
}

/** A line that a process printed. */
interface PrintedLine {
  readonly line: string;
  /** Time of its arrival. */
  readonly at: number;
}

/** One process with a role, and the lines that it printed. */
class Player {
  readonly process: ChildProcess;
  readonly told: PrintedLine[] = [];
  readonly #news = new EventEmitter().setMaxListeners(0);

  constructor({ program, args }: ProcessSubject, role: string) {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const stdio: StdioOptions = ['pipe', 'pipe', 'inherit'];
    this.process = spawn(process.execPath, [program, ...args, role], { env, stdio });
    createInterface(this.process.stdout as NodeJS.ReadableStream).on('line', (line) => {
      this.told.push({ line, at: systemClock.now() });
      this.#news.emit('news');
    });
    this.process.once('exit', () => this.#news.emit('news'));
  }

  /** Gives the first line from `from` on that begins with the text; earlier lines are skipped. */
  async hears(word: string, from = 0): Promise<PrintedLine> {
    for (;;) {
      const found = this.told.slice(from).find(({ line }) => line.startsWith(word));
      if (found) return found;
      assert.equal(this.process.exitCode, null, `it ended before it said ${word}`);
      await new Promise((resolve) => this.#news.once('news', resolve));
    }
  }

  say(line: string): void {
    this.process.stdin?.write(`${line}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exit = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await exit;
  }
}

/** Starts the players, waits until each has said that it is ready, and ends them afterwards. */
async function withPlayers(
  subject: ProcessSubject,
  { role, count, ready }: { readonly role: string; readonly count: number; readonly ready: string },
  play: (players: readonly Player[]) => Promise<void>,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const players = Array.from({ length: count }, () => stack.use(new Player(subject, role)));
  await Promise.all(players.map((player) => player.hears(ready)));
  await play(players);
}

/** Pauses a process before a write until another has written, or had time to. */
async function overtake(players: readonly Player[]): Promise<void> {
  const guarded = players.map(async (player) => {
    await player.hears('guarded', player.told.length);
    return player;
  });
  const holder = await Promise.race(guarded);
  holder.process.kill('SIGSTOP');
  const others = players.filter((player) => player !== holder);
  const written = others.map((other) => other.hears('written', other.told.length));
  await Promise.race([...written, pause(systemClock, 1_500)]);
  holder.process.kill('SIGCONT');
}

async function checkLease(subject: ProcessSubject): Promise<void> {
  await withPlayers(subject, { role: 'fight', count: 8, ready: 'guarded' }, async (players) => {
    const wordsOf = (first: string) => {
      const words = players.flatMap(({ told }) => told.map(({ line }) => line.split(' ')));
      return words.filter(([word]) => word === first);
    };
    const holders = () => new Set(wordsOf('written').map(([, fence]) => fence)).size;
    // On a busy machine a stop may come after the write that it was meant for.
    for (let round = 0; round < 6 || wordsOf('refused').length < 1 || holders() < 8; round += 1) {
      assert.ok(round < 60, `${holders()} wrote, and no write that was overtaken was refused`);
      await overtake(players);
    }
    const written = wordsOf('written');
    // In the order in which the store accepted them, the fencing number never goes back.
    const byVersion = written.toSorted((a, b) => Number(a[2]) - Number(b[2]));
    const fences = byVersion.map(([, fence]) => Number(fence));
    const sorted = fences.toSorted((a, b) => a - b);
    assert.deepEqual(fences, sorted);
  });
}

async function checkBucket(subject: ProcessSubject): Promise<void> {
  await withPlayers(subject, { role: 'take', count: 4, ready: 'ready' }, async (players) => {
    for (const player of players) player.say('go');
    const answers = await Promise.all(players.map((player) => player.hears('{')));
    const results = answers.map(({ line }) => JSON.parse(line) as TakeReport);
    const uses = results.flatMap((result) => result.uses).sort((a, b) => a - b);
    const calls = results.reduce((sum, result) => sum + result.calls, 0);
    const { ratePerSecond, burst } = bucketRule;
    // The clocks of the processes and of the store differ by a little.
    const uncertaintyMs = 100;
    const most = ratePerSecond + burst + Math.ceil((ratePerSecond * uncertaintyMs) / 1_000);
    for (let at = most; at < uses.length; at += 1) {
      const ms = (uses[at] as number) - (uses[at - most] as number);
      assert.ok(ms >= 1_000, `${most + 1} tokens in ${ms} ms`);
    }
    const from = (uses[0] as number) + 500;
    const steadyMs = takeMs - 1_000;
    const count = uses.filter((at) => at >= from && at < from + steadyMs).length;
    // Tokens expire while the machine keeps a process from running.
    const delayedMs = results.reduce((sum, result) => sum + result.delayedMs, 0);
    const whole = (ratePerSecond * (steadyMs - delayedMs)) / 1_000;
    assert.ok(count >= 0.99 * whole, `${count} of ${whole} tokens`);
    const tokens = (ratePerSecond * takeMs) / 1_000;
    assert.ok(calls < 0.3 * tokens, `${calls} calls in the time of ${tokens} tokens`);
  });
}

/** The guaranteed time, plus an allowance for pipes, in milliseconds. */
const withinMs = 1_250;

async function checkBreaker(subject: ProcessSubject): Promise<void> {
  await withPlayers(subject, { role: 'call', count: 4, ready: 'passed' }, async (players) => {
    const [first] = players as [Player];
    using delays = new LoopDelays();
    // The line has the time for which the machine kept its process from running.
    const allowedMs = (line: string) => withinMs + delays.sumMs + Number(line.split(' ')[1]);
    const marks = players.map(({ told }) => told.length);
    first.say('down');
    const refusals = await Promise.all(players.map((each, i) => each.hears('refused', marks[i])));
    const openedAt = (refusals[0] as PrintedLine).at;
    for (const { at, line } of refusals) {
      assert.ok(at - openedAt <= allowedMs(line), `${at - openedAt} ms`);
    }
    // All breakers are open by now, and the first process to call again is the only one.
    const shut = players.map(({ told }) => told.length);
    for (const player of players) player.say('slow');
    const passes = players.map((each, i) => each.hears('passed', shut[i]));
    const closed = await Promise.race(passes);
    const began = players.flatMap(({ told }, i) =>
      told.slice(shut[i]).filter(({ line, at }) => line === 'began' && at < closed.at - 100),
    );
    assert.equal(began.length, 1, 'one of all probes');
    for (const { at, line } of await Promise.all(passes)) {
      // A call of half a second comes between the closing and the first call that passes.
      assert.ok(at - closed.at <= allowedMs(line) + 500, `${at - closed.at} ms`);
    }
  });
}

/** Two processes are killed while they hold permits; these come back. */
async function checkGate(subject: ProcessSubject): Promise<void> {
  await withPlayers(subject, { role: 'enter', count: 4, ready: 'inside' }, async (players) => {
    const [first, second, ...others] = players as [Player, Player, ...Player[]];
    for (const gone of [first, second]) gone.process.kill('SIGKILL');
    // So many that they must have the permits of the killed processes.
    const counts = () =>
      players.flatMap(({ told }) => told.map(({ line }) => Number(line.split(' ')[1])));
    for (const other of others) {
      const from = other.told.length;
      // On a busy machine it takes longer until all permits are seen in use.
      while (other.told.length < from + 10 || !counts().includes(gateLimit)) {
        await other.hears('inside', other.told.length);
      }
    }
    assert.ok(Math.max(...counts()) <= gateLimit, `${Math.max(...counts())} inside at once`);
  });
}

/** Real processes on one store; each takes some seconds of real time. */
export const processCases: readonly ProcessCase[] = [
  { name: 'never lets two write, though holders are stopped for longer', check: checkLease },
  { name: 'gives all together the rate, and no more', check: checkBucket },
  { name: 'opens and closes for all, and one of all probes', check: checkBreaker },
  { name: 'never lets too many in, and has the permits of the killed back', check: checkGate },
];
