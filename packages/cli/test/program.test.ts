import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ShopProcess } from './fixtures/shop-process.ts';

type Case = readonly [words: readonly string[], code: number, stdout: RegExp, stderr: RegExp];

const cases: readonly Case[] = [
  [['--help'], 0, /^Usage: shop [\s\S]*Examples: none/, /^$/],
  [[], 2, /^$/, /Usage: shop/],
  [['confg'], 2, /^$/, /unknown command 'confg'[\s\S]*Did you mean config\?[\s\S]*--help/],
  [['config', '--prot', '1'], 2, /^$/, /unknown option '--prot'/],
  [['config', '--tokn=hush-hush'], 2, /^$/, /unknown option '--tokn'\n/],
  [['config', '--port', 'x'], 2, /^$/, /^shop: port \(flag --port\): must be an integer/],
  [['fail', 'wrong'], 2, /^$/, /^shop: it makes no sense\n$/],
  [['fail', 'failed'], 1, /^$/, /^shop: it broke\n$/],
  [['fail', 'locked'], 3, /^$/, /^shop: it is locked\n$/],
  [['fail', 'stopped'], 130, /^$/, /^$/],
  [['config'], 0, /^port +8080 +default$/m, /^$/],
  [['config', '--token', 'hush-hush'], 0, /^token +\(hidden\) +flag --token$/m, /^$/],
  [['config', '--help'], 0, /--public-url <url>[\s\S]*shop\.json\)[\s\S]*\$ shop config/, /^$/],
  [['few', '--help'], 0, /Settings:\n +--port <number>.*\n +--config <file>/, /^$/],
];

describe('a program', () => {
  it('tells what went wrong, and ends with the code of that', async () => {
    const told = await Promise.all(cases.map(([words]) => new ShopProcess(words).told));
    for (const [at, { code, stdout, stderr }] of told.entries()) {
      const [words, meant, out, err] = cases[at] as Case;
      assert.equal(code, meant, `${words.join(' ')}: ${stderr}`);
      assert.match(stdout, out, words.join(' '));
      assert.match(stderr, err, words.join(' '));
    }
  });

  it('gives programs what it tells people', async () => {
    const { stdout } = await new ShopProcess(['config', '--json'], { SHOP_PORT: '1' }).told;
    const rows: { setting: string }[] = JSON.parse(stdout);
    const port = rows.find(({ setting }) => setting === 'port');
    assert.deepEqual(port, { setting: 'port', value: 1, from: 'environment SHOP_PORT' });
  });

  it('ends quietly when nobody reads what it writes any more', async () => {
    const shop = new ShopProcess(['fill']);
    await shop.ready();
    shop.child.stdout?.destroy();
    const { code, stderr } = await shop.told;
    assert.deepEqual([code, stderr], [0, '']);
  });
});
