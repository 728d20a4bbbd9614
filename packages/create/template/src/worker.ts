// Each exported function runs on the threads of the pool: pool.run('count', text)

export function count(text: string): number {
  return text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;
}
