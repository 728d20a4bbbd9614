import { type Transfer, transfer, type WorkerContext } from 'spillway';

export function setup(): { readonly factor: number } {
  return { factor: 2 };
}

export function double(
  n: number,
  { resource }: WorkerContext<{ readonly factor: number }>,
): number {
  return n * resource.factor;
}

export function zeros(length: number): Transfer<ArrayBuffer> {
  const buffer = new ArrayBuffer(length);
  return transfer(buffer, [buffer]);
}
