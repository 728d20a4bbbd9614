import { type AliasedRawBuilder, type Kysely, sql } from 'kysely';
import type { Database } from 'spillway-sql';
import type { OnlyRanker } from './only-ranker.ts';
import type { RankerSchema } from './ranker-schema.ts';

/** Runs queries as one transaction. */
export type Fenced = Pick<OnlyRanker, 'batch'>;

/** The number of rows, as the same type from both databases. */
export const counted: AliasedRawBuilder<number, 'count'> =
  sql<number>`cast(count(*) as integer)`.as('count');

/** Rows of some tables, and the ways to them. */
export abstract class Records {
  protected readonly database: Database<RankerSchema>;
  /** Runs what only one ranker at a time may change. */
  protected readonly fenced: Fenced;

  constructor(database: Database<RankerSchema>, fenced: Fenced = database) {
    this.database = database;
    this.fenced = fenced;
  }

  protected get kysely(): Kysely<RankerSchema> {
    return this.database.kysely;
  }
}
