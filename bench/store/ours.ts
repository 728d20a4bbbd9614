import { SqliteFile } from 'spillway';
import { createTable, insertRow, type Table } from '../store.ts';

export async function open(path: string): Promise<Table> {
  const file = await SqliteFile.open({ path });
  await file.write([{ sql: createTable, parameters: [] }]);
  return {
    insert: (name) => file.write([{ sql: insertRow, parameters: [name] }]),
    [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
  };
}
