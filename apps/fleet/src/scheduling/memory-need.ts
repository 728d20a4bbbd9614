export interface MemoryNeedOptions {
  /** Hash tables of both engines together, in MiB. */
  readonly hashMiB: number;
  readonly concurrency: number;
  readonly threads: number;
}

/** What a worker must have to play a run's games, in MiB. */
export function memoryNeed({ hashMiB, concurrency, threads }: MemoryNeedOptions): number {
  const games = Math.floor(concurrency / threads);
  return hashMiB * games + 444 + 2 * games * (151 + 31 * threads);
}

/** The number after `Hash=` in an engine's options, in MiB; 0 if there is none. */
export function hashSize(options: string): number {
  return Number(/Hash=(\d+)/.exec(options)?.[1] ?? 0);
}
