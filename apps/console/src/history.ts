/** The last hour of one number, in buckets of half a minute that keep the largest value. */
export class History {
  static readonly bucketMs = 30_000;
  static readonly size = 120;
  readonly #values: number[] = [];
  #bucket = -1;

  add(value: number, now: number): void {
    const bucket = Math.floor(now / History.bucketMs);
    const at = this.#values.length - 1;
    if (bucket === this.#bucket) {
      this.#values[at] = Math.max(this.#values[at] as number, value);
      return;
    }
    this.#bucket = bucket;
    this.#values.push(value);
    if (this.#values.length > History.size) this.#values.shift();
  }

  get values(): readonly number[] {
    return this.#values;
  }

  /** The median of all but the last two buckets: how it usually is. */
  get usual(): number | undefined {
    const before = this.#values.slice(0, -2).sort((a, b) => a - b);
    return before[Math.floor(before.length / 2)];
  }
}
