import type { Clock, Random } from 'spillway';

export interface PeriodicOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Milliseconds between two rounds; each is up to 5 % longer or shorter. */
  readonly periodMs: number;
  /** Milliseconds before the first round; `periodMs` if absent. */
  readonly firstMs?: number | undefined;
}

const jitter = 0.05;

/** Does a job again and again until disposed; the next round is set before the job runs. */
export function periodic(options: PeriodicOptions, job: () => void): Disposable {
  const { clock, random, periodMs, firstMs = periodMs } = options;
  let timer: Disposable;
  let stopped = false;
  const arm = (ms: number): void => {
    timer = clock.after(ms * (1 + jitter * (2 * random() - 1)), () => {
      if (stopped) return;
      arm(periodMs);
      job();
    });
  };
  arm(firstMs);
  return {
    [Symbol.dispose]: () => {
      stopped = true;
      timer[Symbol.dispose]();
    },
  };
}
