import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { flagOf, SettingsError } from 'spillway-cli';
import { type Settings, settingsReader } from '../src/settings.ts';

type SettingName = keyof Settings;

const folder = mkdtempSync(join(tmpdir(), 'fleet-settings-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

/** A data folder with such a file in it. */
function dataWith(file: unknown): string {
  count += 1;
  const data = join(folder, String(count));
  mkdirSync(data);
  writeFileSync(join(data, 'fleet.json'), typeof file === 'string' ? file : JSON.stringify(file));
  return data;
}

const values: Readonly<Record<Exclude<SettingName, 'data'>, readonly [string, string, unknown]>> = {
  database: ['sqlite:a.db', 'sqlite:b.db', 'postgres://c/d'],
  databaseConnections: ['7', '8', 9],
  host: ['127.0.0.2', '127.0.0.3', '127.0.0.4'],
  port: ['1', '2', 3],
  publicUrl: ['http://a.org', 'http://b.org', 'http://c.org'],
  operatorPort: ['4', '5', 6],
  operatorToken: ['a'.repeat(16), 'b'.repeat(16), 'c'.repeat(16)],
  trustProxy: ['10.0.0.1', '10.0.0.2,10.0.0.3', ['10.0.0.0/8']],
  netsUrl: ['http://a.org', 'http://b.org', 'http://c.org'],
  github: ['true', 'false', true],
  foreignRepos: ['true', 'false', true],
  githubUrl: ['http://a.org', 'http://b.org', 'http://c.org'],
  githubRawUrl: ['http://a.org', 'http://b.org', 'http://c.org'],
  githubToken: ['a', 'b', 'c'],
  log: ['true', 'false', true],
};

const meant = (name: string, value: unknown) => {
  if (['port', 'operatorPort', 'databaseConnections'].includes(name)) return Number(value);
  if (name === 'log' || name === 'github' || name === 'foreignRepos')
    return String(value) === 'true';
  return name === 'trustProxy' ? String(value).split(',') : value;
};

describe('settings', () => {
  for (const [name, [flag, variable, inFile]] of Object.entries(values)) {
    it(`take ${name} from its flag, then the environment, then the file, then the default`, () => {
      const setting = name as SettingName;
      const data = dataWith({ [name]: inFile });
      const environment = { [settingsReader.variableOf(setting)]: variable };
      const read = (flags: object, variables: object, folderOfData = data) => {
        const reading = settingsReader.read({
          flags: { ...flags, data: folderOfData },
          environment: { ...variables },
        });
        return [reading.settings[setting], reading.origins[setting]];
      };
      const variableSaid = [
        meant(name, variable),
        `environment ${settingsReader.variableOf(setting)}`,
      ];
      const fileSaid = [meant(name, inFile), `file ${join(data, 'fleet.json')}`];
      assert.deepEqual(read({ [name]: flag }, environment), [
        meant(name, flag),
        `flag ${flagOf(setting)}`,
      ]);
      assert.deepEqual(read({}, environment), variableSaid);
      assert.deepEqual(read({}, {}), fileSaid);
      assert.equal(read({}, {}, join(folder, 'none'))[1], 'default');
    });
  }

  it('lie in one folder by default, and listen to this machine only', () => {
    const { settings } = settingsReader.read({ flags: { data: '/d' }, environment: {} });
    assert.deepEqual(settings, {
      data: '/d',
      database: 'sqlite:/d/fleet.db',
      databaseConnections: 10,
      host: '127.0.0.1',
      port: 6543,
      publicUrl: undefined,
      operatorPort: undefined,
      operatorToken: undefined,
      trustProxy: [],
      netsUrl: undefined,
      github: true,
      foreignRepos: false,
      githubUrl: 'https://api.github.com',
      githubRawUrl: 'https://raw.githubusercontent.com',
      githubToken: undefined,
      log: false,
    });
  });

  it('come from a file that is named, whose paths begin where it lies', () => {
    const data = dataWith({ data: './here' });
    const config = join(data, 'fleet.json');
    const read = (flags: object, environment: Record<string, string>) =>
      settingsReader.read({ flags, environment }).settings;
    assert.equal(read({ config }, {}).data, join(data, 'here'));
    assert.equal(read({}, { FLEET_CONFIG: config }).data, join(data, 'here'));
    assert.equal(read({ config, data: '/other' }, {}).data, '/other');
  });

  const faults: readonly (readonly [string, () => object, RegExp])[] = [
    [
      'a flag',
      () => ({ flags: { port: 'x' } }),
      /^port \(flag --port\): must be an integer from 0/,
    ],
    [
      'a variable',
      () => ({ environment: { FLEET_OPERATOR_TOKEN: 'short' } }),
      /^operatorToken \(environment FLEET_OPERATOR_TOKEN\): must be a word of 16/,
    ],
    [
      'a file',
      () => ({ flags: { data: dataWith({ port: 1.5 }) } }),
      /^port \(file .*fleet\.json\): must be an integer/,
    ],
    [
      'an unknown variable',
      () => ({ environment: { FLEET_PROT: '1' } }),
      /^environment FLEET_PROT: is not known; did you mean FLEET_PORT\?$/,
    ],
    [
      'an unknown key of the file',
      () => ({ flags: { data: dataWith({ operator_tokn: 'x' }) } }),
      /fleet\.json: operator_tokn is not known; did you mean operatorToken\?$/,
    ],
    [
      'a file that is no JSON',
      () => ({ flags: { data: dataWith('{"port": }') } }),
      /fleet\.json: cannot be read as JSON/,
    ],
    [
      'a file that is no object',
      () => ({ flags: { data: dataWith([]) } }),
      /fleet\.json: must be an object/,
    ],
    [
      'a named file that is not there',
      () => ({ flags: { config: join(folder, 'none.json') } }),
      /none\.json: cannot be read.*ENOENT/,
    ],
    [
      'a data folder that names another',
      () => ({ flags: { data: dataWith({ data: '/x' }) } }),
      /data cannot be set here/,
    ],
    ['a database of no kind', () => ({ flags: { database: 'mysql://x' } }), /sqlite:<file> or/],
    ['an address with a slash', () => ({ flags: { publicUrl: 'http://a/' } }), /without a slash/],
    ['a flag that is neither', () => ({ flags: { log: 'maybe' } }), /true or false/],
  ];
  for (const [name, sources, words] of faults) {
    it(`name the place and the rule of ${name} that cannot be used`, () => {
      assert.throws(
        () => settingsReader.read({ flags: {}, environment: {}, ...sources() }),
        (error) => error instanceof SettingsError && words.test(error.message),
      );
    });
  }

  it('are shown without their secrets', () => {
    const database = 'postgres://me:letmein@host/db';
    const flags = { data: '/d', database, operatorToken: 's'.repeat(20), githubToken: 'hush' };
    const shown = settingsReader.shown(settingsReader.read({ flags, environment: {} }).settings);
    assert.equal(shown.database, 'postgres://me:(hidden)@host/db');
    assert.doesNotMatch(JSON.stringify(shown), /letmein|sss|hush/);
    assert.deepEqual(Object.keys(shown), settingsReader.names);
  });
});
