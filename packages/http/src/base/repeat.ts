import type { Clock } from 'spillway';

/** Calls back every `periodMs` until it is disposed; a call that throws ends nothing. */
export function repeat(clock: Clock, periodMs: number, call: () => void): Disposable {
  let timer: Disposable;
  const arm = (): void => {
    timer = clock.after(periodMs, () => {
      arm();
      call();
    });
  };
  arm();
  return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
}
