import { performance } from 'node:perf_hooks';

let insideMs = 0;

/** The minimum work of a limiter that measures service times: a permit, and two clock reads. */
class Permit implements Disposable {
  readonly #startedAt = performance.now();

  [Symbol.dispose](): void {
    insideMs += performance.now() - this.#startedAt;
  }
}

function enter(): Promise<Permit> {
  return Promise.resolve(new Permit());
}

/** Limits nothing, so it is no peer: it shows the minimum cost of a pass. */
export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const permit = await enter();
    try {
      await work();
    } finally {
      permit[Symbol.dispose]();
    }
  }
  if (insideMs < 0) throw new Error('the clock went back');
}
