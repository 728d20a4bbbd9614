import { join } from 'node:path';
import { Document, FileLock } from 'spillway';
import { initial, type Subject } from '../document.ts';

export async function subject(folder: string): Promise<Subject> {
  const document = await Document.open({ path: join(folder, 'value.json'), initial });
  const lock = new FileLock({ path: join(folder, 'lock') });
  return {
    increment: async () => {
      await document.transaction((draft) => {
        draft.count += 1;
      });
    },
    count: async () => (await document.read()).count,
    lock: async () => {
      using _held = await lock.acquire();
    },
    [Symbol.asyncDispose]: async () => {
      lock[Symbol.dispose]();
      await document.close();
    },
  };
}
