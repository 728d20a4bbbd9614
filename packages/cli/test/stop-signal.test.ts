import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { systemClock } from 'spillway';
import { ShopProcess } from './fixtures/shop-process.ts';

async function started(...words: readonly string[]): Promise<ShopProcess> {
  const shop = new ShopProcess(words);
  await shop.ready();
  return shop;
}

/** Tells it to stop again and again, as an impatient person does. */
async function insist({ child }: ShopProcess): Promise<void> {
  while (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await new Promise<void>((resolve) => systemClock.after(100, resolve));
  }
}

const stopping = 'Stopping: it tidies up. Once more ends it at once.\n';
const finishing = 'Stopping: what has begun is finished first. Once more ends it at once.\n';

describe('a stop signal', { concurrency: 2 }, () => {
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    it(`lets a command end in order after ${name}`, async () => {
      const shop = await started('wait');
      shop.child.kill(name);
      const { code, stderr } = await shop.told;
      assert.deepEqual([code, stderr], [7, stopping]);
    });
  }

  it('counts once when two come together, as they do through npm', async () => {
    const shop = await started('wait', '--twice');
    // Both wait for the process until it goes on, so they come together on any machine.
    for (const name of ['SIGSTOP', 'SIGTERM', 'SIGINT', 'SIGCONT'] as const) shop.child.kill(name);
    const { code, stderr } = await shop.told;
    assert.deepEqual([code, stderr], [7, stopping]);
  });

  it('counts once when npm, on a busy machine, passes the first one on late', async () => {
    const shop = await started('wait', '--twice', '--late');
    shop.child.kill('SIGTERM');
    await shop.ready();
    shop.child.kill('SIGINT');
    const { code, stderr } = await shop.told;
    assert.deepEqual([code, stderr], [7, stopping]);
  });

  it('is the end of whoever started the process, too, and then nothing is said', async () => {
    const shop = await started('wait');
    shop.child.disconnect();
    const { code, stderr } = await shop.told;
    assert.deepEqual([code, stderr], [7, '']);
  });

  it('ends a command at once when it comes again', async () => {
    const shop = await started('wait', '--never');
    await insist(shop);
    const { code, stderr } = await shop.told;
    assert.deepEqual(
      [code, stderr],
      [143, `${stopping}SIGTERM again: ended at once. Some is left.\n`],
    );
  });

  it('stops a service, and says that nothing was left', async () => {
    const shop = await started('serve');
    shop.child.kill('SIGTERM');
    const { code, stderr } = await shop.told;
    assert.deepEqual([code, stderr], [0, `${finishing}Stopped; nothing was left.\n`]);
  });

  it('says what of a service did not stop', async () => {
    const [failing, hanging] = await Promise.all([
      started('serve', '--stop', 'fails'),
      started('serve', '--stop', 'hangs'),
    ]);
    failing.child.kill('SIGTERM');
    const failed = await failing.told;
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /desk/);
    await insist(hanging);
    const hung = await hanging.told;
    assert.equal(hung.code, 143);
    assert.equal(hung.stderr, `${finishing}SIGTERM again: ended at once. Not stopped: desk\n`);
  });
});
