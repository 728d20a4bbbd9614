import type { Clock } from '../base/clock.ts';

/** Wakes the one who listens: to be asked for again after each look at what may have changed. */
export class Bell {
  #rung = Promise.withResolvers<void>();

  ring(): void {
    this.#rung.resolve();
  }

  /** Resolves when it rings, or after `ms`; what rang since it was last heard counts. */
  async heard(clock: Clock, ms: number): Promise<void> {
    const { promise, resolve } = this.#rung;
    using _timer = clock.after(ms, resolve);
    await promise;
    this.#rung = Promise.withResolvers<void>();
  }
}
