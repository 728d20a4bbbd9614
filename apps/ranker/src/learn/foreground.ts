/**
 * Knows, on every thread, whether there is work that somebody waits for. It is in shared memory:
 * work in the background looks there between two pieces and makes way.
 */
export class Foreground {
  /** How many are inside now. */
  readonly inside: Int32Array = new Int32Array(new SharedArrayBuffer(4));

  /** Until it is disposed of, the background makes way. */
  enter(): Disposable {
    let isInside = true;
    Atomics.add(this.inside, 0, 1);
    return {
      [Symbol.dispose]: () => {
        if (!isInside) return;
        isInside = false;
        if (Atomics.sub(this.inside, 0, 1) === 1) Atomics.notify(this.inside, 0);
      },
    };
  }
}
