import type { Database } from 'spillway-sql';
import { checksumOf } from './article-vectors.ts';
import type { RankerSchema } from './ranker-schema.ts';

/** What a user's training came to. */
export interface KeptTaste {
  readonly version: number;
  readonly bytes: Uint8Array;
}

/** Tastes as they were last published, so that a restart goes on from there. */
export class KeptTastes {
  readonly #database: Database<RankerSchema>;

  constructor(database: Database<RankerSchema>) {
    this.#database = database;
  }

  /** Keeps a taste unless a newer one is kept already. */
  async save(userId: string, { version, bytes }: KeptTaste, at: number): Promise<void> {
    const checksum = checksumOf(bytes);
    const rest = { version, data: bytes, checksum, saved_at: at };
    await this.#database.kysely
      .insertInto('tastes')
      .values({ user_id: userId, ...rest })
      .onConflict((conflict) =>
        conflict.column('user_id').doUpdateSet(rest).where('tastes.version', '<', version),
      )
      .execute();
  }

  /** Undefined if there is none, or none that is whole: it can be made again from the ratings. */
  async find(userId: string, signal?: AbortSignal): Promise<KeptTaste | undefined> {
    const row = await this.#database.kysely
      .selectFrom('tastes')
      .select(['version', 'data', 'checksum'])
      .where('user_id', '=', userId)
      .executeTakeFirst({ signal });
    if (row === undefined || row.checksum !== checksumOf(row.data)) return undefined;
    return { version: row.version, bytes: row.data };
  }
}
