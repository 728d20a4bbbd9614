import type { WorkerContext } from 'spillway';

export function setup(): { readonly factor: number } {
  return { factor: 2 };
}

export function double(
  n: number,
  { resource }: WorkerContext<{ readonly factor: number }>,
): number {
  return n * resource.factor;
}
