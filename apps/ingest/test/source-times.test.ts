import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inScene } from './fixtures/source-scene.ts';

describe('records of any year from 1 to 9999', () => {
  const times = `0001-01-01T00:00:00Z 1906-04-17T23:59:59.999999Z 1906-04-18T00:00:00Z
    1906-04-18T13:12:00.5Z 1969-12-31T23:59:59.999999Z 1970-01-01T00:00:00.000001Z
    2026-01-01T23:59:59.999999Z 2026-01-02T00:00:00Z 2300-01-01T23:59:59.999999Z
    2300-01-02T00:00:00Z 9999-12-31T23:59:59.999999Z`.split(/\s+/);
  it('are each once in the folder of their day', async () => {
    const pages = { by: 'page', page: 'page', size: 10 };
    const source = {
      name: 'posts',
      address: 'http://localhost/posts',
      key: 'id',
      records: 'data.items',
      time: 'at',
      pages,
      limits: { perSecond: 5_000 },
    };
    await inScene(source, async (scene, api) => {
      api.lists.set(
        '/posts',
        times.map((at, id) => ({ id, at })),
      );
      await scene.run();
      await scene.run();
      assert.deepEqual(await scene.flaws(), []);
      const rows = await scene.rows('id, CAST(date AS VARCHAR) AS day', 'ORDER BY id');
      assert.deepEqual(
        rows,
        times.map((at, id) => ({ id, day: at.slice(0, 10) })),
      );
    });
  });
});
