import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lock } from 'proper-lockfile';
import writeFileAtomic from 'write-file-atomic';
import { initial, type Subject, type Value } from '../document.ts';

/** Both packages as people combine them; callers queue in memory, so none polls the lock file. */
export async function subject(folder: string): Promise<Subject> {
  const path = join(folder, 'value.json');
  const read = async (): Promise<Value> => JSON.parse(await readFile(path, 'utf8'));
  const change = async (): Promise<void> => {
    const release = await lock(path);
    try {
      const value = await read();
      value.count += 1;
      await writeFileAtomic(path, JSON.stringify(value), { mode: 0o600 });
    } finally {
      await release();
    }
  };
  let last = Promise.resolve();
  await writeFileAtomic(path, JSON.stringify(initial));
  return {
    increment: () => {
      last = last.then(change);
      return last;
    },
    count: async () => (await read()).count,
    lock: async () => {
      const release = await lock(path);
      await release();
    },
    [Symbol.asyncDispose]: async () => {},
  };
}
