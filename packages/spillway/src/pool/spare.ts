/** How many buffers are kept for use again, all of one size: 64 KiB, as copied here, took 20 us. */
const keptMax = 64;

let kept: Uint8Array<ArrayBuffer>[] = [];
let keptBytes = 0;

/** A copy of a value whose buffer is about to be moved, and what becomes of its memory later. */
export class PoolSpare {
  readonly value: unknown;
  #bytes: Uint8Array<ArrayBuffer> | undefined;

  constructor(value: unknown, moved: readonly ArrayBuffer[]) {
    const isBytes = value instanceof Uint8Array && value.byteLength === value.buffer.byteLength;
    if (isBytes && moved.length === 1 && moved[0] === value.buffer) {
      if (value.byteLength !== keptBytes) {
        kept = [];
        keptBytes = value.byteLength;
      }
      // Filling memory that was used before takes 2 us; getting new memory is what costs.
      this.#bytes = kept.pop() ?? new Uint8Array(value.byteLength);
      this.#bytes.set(value);
      this.value = this.#bytes;
    } else {
      this.value = structuredClone(value);
    }
  }

  /** Nobody will read the copy any more. */
  release(): void {
    const bytes = this.#bytes;
    this.#bytes = undefined;
    if (bytes?.byteLength === keptBytes && kept.length < keptMax) kept.push(bytes);
  }
}
