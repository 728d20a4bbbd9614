import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { choice, number, SettingsError, type SettingsOf, SettingsReader, text } from 'spillway-cli';
import { reader, type Settings } from './fixtures/shop.ts';

const folder = mkdtempSync(join(tmpdir(), 'cli-settings-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

/** A data folder with such a file in it. */
function dataWith(file: unknown): string {
  count += 1;
  const data = join(folder, String(count));
  mkdirSync(data);
  writeFileSync(join(data, 'shop.json'), typeof file === 'string' ? file : JSON.stringify(file));
  return data;
}

function read(flags: object, environment: Record<string, string> = {}): Settings {
  return reader.read({ flags, environment }).settings;
}

function refusal(flags: object, environment: Record<string, string> = {}): string {
  try {
    read(flags, environment);
  } catch (error) {
    assert.ok(error instanceof SettingsError, String(error));
    return error.message;
  }
  return assert.fail('nothing was wrong');
}

describe('a table of rules', () => {
  it('gives the type of the settings', () => {
    const rules = {
      data: text('', { value: '', rule: '', pattern: /./, absent: 'data' }),
      port: number('', { absent: 8080, min: 0, max: 65_535 }),
      rate: number('', { absent: undefined, min: 0, max: 9 }),
      mode: choice('', { value: '', words: ['fast', 'safe'], absent: 'safe' }),
    };
    const reader = new SettingsReader<SettingsOf<typeof rules>>({ program: 'mill', rules });
    const { settings } = reader.read({ flags: { data: 'nowhere' }, environment: {} });
    const port: number = settings.port;
    const rate: number | undefined = settings.rate;
    const mode: 'fast' | 'safe' = settings.mode;
    assert.deepEqual([settings.data, port, rate, mode], ['nowhere', 8080, undefined, 'safe']);
  });
});

describe('settings', () => {
  it('come from a flag, else the environment, else the file, else the default', () => {
    const data = dataWith({ port: 3, rate: 3, mode: 'fast', publicUrl: 'http://c' });
    const { settings, origins } = reader.read({
      flags: { data, port: '1' },
      environment: { SHOP_PORT: '2', SHOP_RATE: '2.5', SHOP_PUBLIC_URL: 'http://b', OTHER: 'x' },
    });
    const { port, rate, publicUrl, mode, log } = settings;
    assert.deepEqual([port, rate, publicUrl, mode, log], [1, 2.5, 'http://b', 'fast', false]);
    assert.equal(origins.port, 'flag --port');
    assert.equal(origins.publicUrl, 'environment SHOP_PUBLIC_URL');
    assert.equal(origins.mode, `file ${join(data, 'shop.json')}`);
    assert.equal(origins.log, 'default');
  });

  it('lie in the data folder by default, wherever that is', () => {
    const { data, database, list } = read({ data: '/d' });
    assert.deepEqual([data, database, list], ['/d', 'sqlite:/d/shop.db', '/d/list.json']);
    assert.equal(read({ data: 'here' }).data, resolve('here'));
    assert.equal(read({}).list, resolve('data', 'list.json'));
  });

  it('come from a file that is named, whose paths begin where it lies', () => {
    const data = dataWith({ data: './here', list: 'all.json' });
    const config = join(data, 'shop.json');
    assert.equal(read({ config }).data, join(data, 'here'));
    assert.equal(read({}, { SHOP_CONFIG: config }).list, join(data, 'all.json'));
    assert.equal(read({ config, data: '/other' }).data, '/other');
    assert.equal(read({ config, list: 'some.json' }).list, resolve('some.json'));
  });

  it('are read from text as from JSON', () => {
    const data = dataWith({ log: true, proxies: ['10.0.0.1'], port: 7, list: 5 });
    const inFile = read({ data });
    assert.deepEqual([inFile.log, inFile.proxies, inFile.port], [true, ['10.0.0.1'], 7]);
    assert.equal(inFile.list, join(data, '5'));
    const asText = read({ log: 'true', proxies: '10.0.0.1, 10.0.0.2,', port: ' 7 ' });
    assert.deepEqual([asText.log, asText.port], [true, 7]);
    assert.deepEqual(asText.proxies, ['10.0.0.1', '10.0.0.2']);
  });

  it('are as if they were not set when they are empty, where that is allowed', () => {
    assert.equal(read({ publicUrl: '' }).publicUrl, undefined);
    assert.match(refusal({ token: '' }), /^token \(flag --token\): must be a long word/);
  });

  it('are refused all at once, each with its place, its rule and what was sent', () => {
    const data = dataWith({ port: 1.5, log: 1, proxies: '10.0.0.1', mode: null });
    assert.deepEqual(refusal({ data, rate: '11' }, { SHOP_PROXIES: '10.0.0.1,x' }).split('\n'), [
      `port (file ${data}/shop.json): must be an integer from 0 to 65535, got 1.5`,
      `rate (flag --rate): must be a number from 0.5 to 10, got '11'`,
      `mode (file ${data}/shop.json): must be fast or safe, got null`,
      `log (file ${data}/shop.json): must be true or false, got 1`,
      `proxies (environment SHOP_PROXIES): must be addresses, got '10.0.0.1,x'`,
    ]);
    for (const port of ['', ' ', '1e1', '1.5', '0x10', 'two', '-1', '65536']) refusal({ port });
    for (const port of ['0', '+1', '65535', '1.0']) read({ port });
  });

  it('that nobody knows are refused, with the nearest that is known', () => {
    const unknown = refusal({}, { SHOP_PROT: '1' });
    assert.equal(unknown, 'environment SHOP_PROT: is not known; did you mean SHOP_PORT?');
    read({}, { SHOP_PASSWORD: 'x' });
    const wrongKey = refusal({ data: dataWith({ public_ur: 'x' }) });
    assert.match(wrongKey, /shop\.json: public_ur is not known; did you mean publicUrl\?$/);
    assert.match(refusal({ data: dataWith({ toString: 1 }) }), /toString is not known$/);
  });

  it('in a file that makes no sense are refused with its name', () => {
    const none = join(folder, 'none.json');
    const wrong = 'data cannot be set here, since this file is looked for in the data folder';
    assert.ok(refusal({ data: dataWith({ data: '/x' }) }).endsWith(wrong));
    assert.match(refusal({ data: dataWith('{"port": }') }), /json: cannot be read as JSON/);
    assert.match(refusal({ data: dataWith([]) }), /json: must be an object with named fields$/);
    assert.match(refusal({ config: none }), /none\.json: cannot be read as JSON: ENOENT/);
  });

  it('are shown in a complaint at most in one short line', () => {
    const huge = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`key${at}`, at]));
    for (const port of [huge, 'x'.repeat(100_000), Array.from({ length: 1_000 }, () => 'x')]) {
      const complaint = refusal({ data: dataWith({ port }) });
      assert.match(complaint, /^port .*: must be an integer from 0 to 65535, got .*…$/);
      assert.ok(complaint.length < 400, complaint);
    }
    const name = `port\n${'x'.repeat(100_000)}`;
    assert.match(refusal({ data: dataWith({ [name]: 1 }) }), /: 'port\\nx{90,100}… is not known$/);
  });

  it('that are secret are shown to nobody, not even in a complaint', () => {
    const flags = { database: 'postgres://me:letmein@host/db', token: 'hush-hush' };
    const shown = reader.shown(read(flags));
    assert.equal(shown.database, 'postgres://me:(hidden)@host/db');
    assert.equal(shown.token, '(hidden)');
    for (const [database, told] of [
      ['postgres://me:let@me@in@host/db', 'postgres://me:(hidden)@host/db'],
      ['postgres://host/db?user=me&password=letmein&a=b', 'password=(hidden)&a=b'],
      ['postgres:me:letmein@host/db', 'postgres:me:(hidden)@host/db'],
    ] as const) {
      const address = String(reader.shown(read({ database })).database);
      assert.ok(address.endsWith(told), address);
      assert.doesNotMatch(address, /me@in|letmein/);
    }
    assert.equal(reader.shown(read({})).token, '');
    assert.deepEqual(Object.keys(shown), reader.names);
    const database = 'mysql://me:letmein@host';
    assert.doesNotMatch(refusal({ database, token: 'hush' }), /letmein|hush/);
    for (const file of [
      '{"token": hush-hush}',
      '{"token": "hush-hush" "a": 1}',
      '{"token": "hush',
    ]) {
      const complaint = refusal({ data: dataWith(file) });
      assert.match(complaint, /shop\.json: cannot be read as JSON: \w/);
      assert.doesNotMatch(complaint, /hush|ush-/);
    }
  });

  it('begin with the data folder', () => {
    const { port, data } = reader.rules;
    const rules = { port, data };
    const message = 'rules: the first must be data, others may lie in it';
    assert.throws(() => new SettingsReader({ program: 'shop', rules }), { message });
  });
});
