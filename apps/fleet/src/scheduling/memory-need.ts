export interface MemoryNeedOptions {
  readonly newOptions: string;
  readonly baseOptions: string;
  readonly concurrency: number;
  readonly threads: number;
}

/** What a worker must have to play a run's games, in MiB. */
export function memoryNeed(options: MemoryNeedOptions): number {
  const { newOptions, baseOptions, concurrency, threads } = options;
  const games = Math.floor(concurrency / threads);
  const hash = hashSize(newOptions) + hashSize(baseOptions);
  return hash * games + 444 + 2 * games * (151 + 31 * threads);
}

/** The number after `Hash=` in an engine's options, in MiB; 0 if there is none. */
export function hashSize(options: string): number {
  return Number(/Hash=(\d+)/.exec(options)?.[1] ?? 0);
}
