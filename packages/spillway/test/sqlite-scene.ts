import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SqliteFile, type SqliteFileOptions, type SqlStatement, type SqlValue } from 'spillway';

/** A file in a folder of its own, with one table: `item (id, name unique)`. */
export class Scene implements AsyncDisposable {
  readonly path: string;
  readonly file: SqliteFile;
  readonly #folder: AsyncDisposable;

  private constructor(folder: AsyncDisposable, path: string, file: SqliteFile) {
    this.#folder = folder;
    this.path = path;
    this.file = file;
  }

  static async open(options: Partial<SqliteFileOptions> = {}): Promise<Scene> {
    const folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sqlite-'));
    const path = join(folder.path, 'file.db');
    const file = await SqliteFile.open({ path, ...options });
    await file.write([sql('CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE)')]);
    return new Scene(folder, path, file);
  }

  async names(): Promise<unknown[]> {
    const { rows } = await this.file.read(sql('SELECT name FROM item ORDER BY id'));
    return rows.map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file[Symbol.asyncDispose]();
    await this.#folder[Symbol.asyncDispose]();
  }
}

export function sql(text: string, ...parameters: SqlValue[]): SqlStatement {
  return { sql: text, parameters };
}

export const insert = (name: SqlValue): SqlStatement =>
  sql('INSERT INTO item (name) VALUES (?)', name);
