import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { logWorker } from '../src/world/manage.ts';
import { FleetSite, info } from './fixtures/fleet-site.ts';

const said = 1_300;

describe('regular expressions in queries about the log', () => {
  let site: FleetSite;

  before(async () => {
    site = await FleetSite.open();
    await site.run();
    for (let count = 0; count < said; count += 100) {
      await site.fleet.primary.change((fleet) => {
        const all = logWorker(fleet, info(), `warning ${count}`);
        for (let one = count + 1; one < count + 100; one += 1) {
          all.actions.push(...logWorker(fleet, info(), `warning ${one}`).actions);
        }
        return all;
      });
    }
  });

  after(() => site[Symbol.asyncDispose]());

  const messages = async (query: object): Promise<string[]> => {
    const { status, json } = await site.ask('actions', query);
    assert.equal(status, 200);
    return json.map(({ message }: { message: string }) => message);
  };

  it('find entries wherever they are in the log, the newest first', async () => {
    assert.deepEqual(await messages({ message: { $regex: '^warning (7|1207)$' } }), [
      'warning 1207',
      'warning 7',
    ]);
    const all = await messages({ action: 'worker_log', message: { $regex: 'warn' } });
    assert.deepEqual([all.length, all[0]], [200, `warning ${said - 1}`]);
  });

  it('go with options, with other conditions, and inside any of them', async () => {
    const ofRun = { run: { $regex: '^TEST', $options: 'i' } };
    assert.deepEqual(await messages(ofRun), ['approved', 'added']);
    assert.deepEqual(await messages({ run: { $regex: '(?i)^TEST' } }), ['approved', 'added']);
    assert.deepEqual(await messages({ ...ofRun, action: 'new_run' }), ['added']);
    assert.deepEqual(await messages({ ...ofRun, action: { $regex: '^new', $ne: 'x' } }), ['added']);
    const either = [{ message: { $regex: '^add' } }, { message: 'warning 3' }];
    assert.deepEqual(await messages({ $or: either }), ['warning 3', 'added']);
    const neither = { $nor: [{ message: { $regex: '^w' } }], message: { $exists: true } };
    assert.deepEqual((await messages(neither)).slice(0, 2), ['approved', 'added']);
    const notNew = { run: { $regex: '^test' }, action: { $not: { $regex: 'new' } } };
    assert.deepEqual(await messages(notNew), ['approved']);
    assert.deepEqual(await messages({ task_id: { $regex: '.' } }), []);
  });

  it('that are none give nothing', async () => {
    const odd = [
      { $regex: '(' },
      { $regex: 5 },
      { $regex: 'x'.repeat(501) },
      { $regex: 'x', $options: 'q' },
      { $regex: 'x', $where: '1' },
      { $options: 'i' },
    ];
    for (const message of odd) assert.deepEqual(await messages({ message }), []);
    assert.deepEqual(await messages({ $or: { message: { $regex: 'x' } } }), []);
  });

  it('that would take a backtracking engine for ever take no time', async () => {
    const text = 'a'.repeat(60);
    await site.fleet.primary.change((fleet) => logWorker(fleet, info(), `${text}!`));
    const endless = messages({ message: { $regex: '^(a+)+$' } });
    const beat = await site.ask('request_version', { password: 'secret', worker_info: info() });
    assert.equal(beat.status, 200);
    assert.deepEqual(await endless, []);
    assert.deepEqual(await messages({ message: { $regex: '^warning 7$' } }), ['warning 7']);
  });
});
