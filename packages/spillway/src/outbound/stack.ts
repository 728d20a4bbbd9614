import { check } from '../base/check.ts';
import { runnerRule } from '../base/options.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';

/** A function that runs a task through all runners of a stack. */
export type Stack = <T>(task: Task<T>, options?: RunOptions) => Promise<T>;

/**
 * Composes runners, outermost first: `stack(lane, retry, breaker, bucket)` holds one permit of the
 * lane for all attempts of a call; each attempt asks the breaker anew; only what the breaker lets
 * through takes a token of the bucket. Each runner gives its own signal to the one inside it, so an
 * abort or a deadline of an outer one ends the inner ones. Permits are held until the task has
 * really ended, also one that ignored its signal when an attempt or the whole call was given up.
 *
 * The order is a choice. A retry outside of a lane lets others in between two attempts, and outside
 * of a breaker it waits until that closes again; inside of one, the breaker sees a call fail only
 * after its last attempt.
 */
export function stack(...runners: readonly Runner[]): Stack {
  for (const runner of runners) {
    check(runnerRule.holds(runner), 'stack: runner', runnerRule.rule, runner);
  }
  return (task, options) => {
    // A signal of this call's own, by which its permits are held until its work has ended.
    const signal = options?.signal ?? new AbortController().signal;
    let run = task;
    for (const runner of runners.slice(1).toReversed()) {
      const inner = run;
      run = (signal) => runner.run(inner, { signal });
    }
    const [outermost] = runners;
    return outermost === undefined ? run(signal) : outermost.run(run, { ...options, signal });
  };
}
