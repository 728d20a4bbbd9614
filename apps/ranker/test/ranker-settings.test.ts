import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { embedderOptions, settingRules, settingsReader } from '../src/settings.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';

const readSettings = settingsReader.read.bind(settingsReader);

describe('the settings of the ranker', () => {
  it('takes a flag before the environment, that before the file', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const file = { port: 1, workers: 1, rankMs: 1_000, compat: true };
    writeFileSync(join(data, 'ranker.json'), JSON.stringify(file));
    const environment = { RANKER_DATA: data, RANKER_PORT: '2', RANKER_WORKERS: '2' };
    const { settings, origins } = readSettings({ flags: { port: '3' }, environment });
    assert.deepEqual(
      [settings.port, settings.workers, settings.rankMs, settings.compat, settings.tastesMax],
      [3, 2, 1_000, true, 64],
    );
    assert.equal(origins.port, 'flag --port');
    assert.equal(origins.workers, 'environment RANKER_WORKERS');
    assert.equal(origins.rankMs, `file ${join(data, 'ranker.json')}`);
    assert.equal(origins.tastesMax, 'default');
    assert.equal(settings.database, `sqlite:${join(data, 'ranker.db')}`);
  });

  it('says what is wrong, where it came from and what the rule is', () => {
    const wrong: readonly (readonly [Parameters<typeof readSettings>[0], RegExp])[] = [
      [{ flags: { port: '99999' }, environment: {} }, /port \(flag --port\): must be an integer/],
      [{ flags: { compat: 'maybe' }, environment: {} }, /compat .*: must be true or false/],
      [{ flags: {}, environment: { RANKER_PROT: '1' } }, /RANKER_PROT: is not known/],
      [{ flags: { config: 'none.json' }, environment: {} }, /none\.json: cannot be read as JSON/],
      [{ flags: { allowPrivate: '10.0.0.0/99' }, environment: {} }, /must be networks like/],
      [{ flags: { allowPrivate: 'all, 300.1.1.1' }, environment: {} }, /must be networks like/],
      [{ flags: { trustProxy: '10.0.0' }, environment: {} }, /must be addresses or networks/],
      [{ flags: { operatorToken: 'short' }, environment: {} }, /got something else/],
    ];
    for (const [sources, words] of wrong) {
      assert.throws(() => readSettings(sources), { name: 'SettingsError', message: words });
    }
  });

  it('replace one worker a minute by default, and give pictures a bound', () => {
    const { settings } = readSettings({ flags: { data: '/somewhere' }, environment: {} });
    assert.equal(embedderOptions(settings).workerIntervalMs, 60_000);
    assert.equal(settings.imageBytes, 536_870_912);
    const flags = { data: '/somewhere', workerIntervalMs: '1000' };
    const set = readSettings({ flags, environment: {} }).settings;
    assert.equal(embedderOptions(set).workerIntervalMs, 1_000);
  });

  it('halves the say of a rating in a year, unless it is told otherwise', () => {
    const of = (flags: Record<string, string>) => readSettings({ flags, environment: {} }).settings;
    assert.equal(of({}).ratingHalfLifeDays, 365);
    assert.equal(of({ ratingHalfLifeDays: '30' }).ratingHalfLifeDays, 30);
  });

  it('hides secrets, and takes its own defaults', () => {
    const database = 'postgres://me:secret@host/db';
    const operatorToken = 'a-very-secret-token';
    const { settings } = readSettings({ flags: { database, operatorToken }, environment: {} });
    assert.doesNotMatch(JSON.stringify(settingsReader.shown(settings)), /secret@|very-secret/);
    for (const [name, { read, absent, rule }] of Object.entries(settingRules)) {
      const isUnset = absent === '' || absent === undefined;
      assert.ok(isUnset || read(absent as never) !== undefined, `${name}: ${rule}`);
    }
  });
});
