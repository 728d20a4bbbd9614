import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const answerMsMax = 600_000;

/** One contender in its own process, apart from the garbage, timers and JIT state of others. */
export class Corner implements AsyncDisposable {
  readonly #name: string;
  readonly #child: ChildProcess;

  constructor(bench: string, contender: string) {
    this.#name = contender;
    this.#child = fork(join(import.meta.dirname, 'contestant.ts'), [bench, contender]);
  }

  /** Returns once the contender is ready to be measured. */
  async open(): Promise<this> {
    await this.#answer();
    return this;
  }

  async measure(run: string, quick: boolean): Promise<Readonly<Record<string, number>>> {
    this.#child.send({ run, quick });
    return await this.#answer();
  }

  /** The child's next message; rejects when it ends or stays silent instead. */
  async #answer(): Promise<Readonly<Record<string, number>>> {
    const waiting = new AbortController();
    const { signal } = waiting;
    const timer = setTimeout(() => waiting.abort(), answerMsMax);
    const gone = once(this.#child, 'exit', { signal }).then(([code]) => {
      throw new Error(`${this.#name} ended with code ${code} before it answered`);
    });
    try {
      const [answer] = await Promise.race([once(this.#child, 'message', { signal }), gone]);
      return answer;
    } catch (cause) {
      throw new Error(`no answer from ${this.#name}`, { cause });
    } finally {
      clearTimeout(timer);
      waiting.abort();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}
