import type { WorkerContext } from 'spillway';

/** The snapshot that all workers read; `publish` replaces it as a whole. */
export interface Model {
  readonly name: string;
  readonly weight: number;
}

/** Resources of one worker. */
interface Parser {
  texts: number;
}

export function setup(): Parser {
  return { texts: 0 };
}

export function score(text: string, context: WorkerContext<Parser, Model>): string {
  context.resource.texts += 1;
  const { name, weight } = context.snapshot;
  return `${name} gives "${text}" ${text.length * weight}`;
}

export async function* words(text: string): AsyncGenerator<string> {
  yield* text.split(' ');
}
