import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { feedOf } from '../src/storage/articles.ts';
import type { RankerStorage } from '../src/storage/ranker-storage.ts';
import { openStorage, smallModel, temporaryFolder } from './fixtures/stored-ranker.ts';

/** SQLite has no statistics of a young database: what it does must not depend on them. */
describe('queries of a large library, on SQLite', () => {
  const stack = new AsyncDisposableStack();
  let storage: RankerStorage;
  before(async () => {
    const folder = await temporaryFolder(stack);
    storage = await openStorage(`sqlite:${join(folder, 'ranker.db')}`, stack);
  });
  after(() => stack.disposeAsync());

  /** The steps that the database takes for a query. */
  const planOf = async (query: ReturnType<typeof sql>): Promise<string[]> => {
    const { rows } = await sql<{ readonly detail: string }>`explain query plan ${query}`.execute(
      storage.database.kysely,
    );
    return rows.map(({ detail }) => detail);
  };

  it('look at the feeds of an article, not at all feeds of its reader', async () => {
    const steps = await planOf(sql`select ${feedOf('ada')} from articles`);
    assert.ok(
      steps.some((step) => /SEARCH subscriptions .*user_id=\? AND feed_id=\?/.test(step)),
      steps.join('\n'),
    );
  });

  it('find articles without vectors by indexes alone', async () => {
    const { id, precision, dimension } = smallModel;
    const made = sql`select article_id from vectors
      where model = ${id} and precision = ${precision} and dimension = ${dimension}`;
    assert.match((await planOf(made)).join('\n'), /COVERING INDEX vectors_by_model/);
  });
});
