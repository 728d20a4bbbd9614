import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import { createTable, insertRow, type Table } from '../store.ts';

export async function open(path: string): Promise<Table> {
  const database = new DatabaseSync(path);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  database.exec(createTable);
  const statement = database.prepare(insertRow);
  return {
    async insert(name) {
      statement.run(name);
      // The next call begins in another turn, as requests do; otherwise the loop would starve.
      await setImmediate();
    },
    [Symbol.asyncDispose]: async () => database.close(),
  };
}
