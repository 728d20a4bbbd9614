import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { SettingsError } from 'spillway-cli';
import { readSettings, settingsReader } from '../src/settings.ts';

const folder = await mkdtemp(join(tmpdir(), 'ingest-settings-'));
after(() => rm(folder, { recursive: true }));

function refusal(flags: object, environment: Record<string, string> = {}): string {
  try {
    readSettings({ flags, environment });
  } catch (error) {
    assert.ok(error instanceof SettingsError, String(error));
    return error.message;
  }
  return assert.fail('nothing was wrong');
}

describe('settings', () => {
  it('come from a flag, else the environment, else the file, else the default', async () => {
    const config = join(folder, 'some.json');
    const values = { exchange: 'kraken', workers: 3, limit: 50, seedPath: 'list.yaml' };
    await writeFile(config, JSON.stringify(values));
    const { settings, origins } = readSettings({
      flags: { config, exchange: 'binance', data: folder },
      environment: { INGEST_EXCHANGE: 'coinbase', INGEST_WORKERS: '4' },
    });
    assert.equal(settings.exchange, 'binance');
    assert.equal(settings.workers, 4);
    assert.equal(settings.limit, 50);
    assert.equal(settings.mode, 'prefix');
    assert.equal(settings.store, `sqlite:${join(folder, 'ingest.db')}`);
    // A path in a file is meant from where the file lies.
    assert.equal(settings.seedPath, join(folder, 'list.yaml'));
    assert.equal(origins.exchange, 'flag --exchange');
    assert.equal(origins.workers, 'environment INGEST_WORKERS');
    assert.equal(origins.limit, `file ${config}`);
    assert.equal(origins.mode, 'default');
  });

  it('keep to their ranges, and say all that is wrong with its place and rule', () => {
    const message = refusal(
      { workers: '11', chunkConcurrency: '0', limit: '1001' },
      { INGEST_MODE: 'loose', INGEST_RATE_PER_SECOND: '-1' },
    );
    assert.match(message, /workers \(flag --workers\): must be an integer from 1 to 10, got '11'/);
    assert.match(message, /chunkConcurrency .*: must be an integer from 1 to 25, got '0'/);
    assert.match(message, /limit .*: must be an integer from 1 to 1000/);
    assert.match(message, /mode \(environment INGEST_MODE\): must be prefix or strict/);
    assert.match(message, /ratePerSecond .*: must be a number from 0.01 to 10000/);
    for (const workers of ['1', '10']) readSettings({ flags: { workers }, environment: {} });
    for (const workers of ['', '1.5', '1e1', 'two', ' ']) refusal({ workers });
  });

  it('that nobody knows are refused, with the nearest that is known', async () => {
    assert.match(refusal({}, { INGEST_WORKER: '2' }), /INGEST_WORKER: .*did you mean INGEST_WORK/);
    const config = join(folder, 'wrong.json');
    await writeFile(config, '{"limits": 5}');
    assert.match(refusal({ config }), /wrong\.json: limits is not known; did you mean limit\?/);
    await writeFile(config, '{"limit": ');
    assert.match(refusal({ config }), /wrong\.json: cannot be read as JSON/);
    await writeFile(config, '[]');
    assert.match(refusal({ config }), /must be an object/);
    assert.match(refusal({ config: join(folder, 'none.json') }), /none\.json: cannot be read/);
  });

  it('that are secret are shown to nobody', () => {
    const store = 'postgres://me:hunter22@db.example:5432/ingest';
    const { settings } = readSettings({
      flags: { store, operatorToken: 'a-long-enough-token' },
      environment: {},
    });
    const shown = JSON.stringify(settingsReader.shown(settings));
    assert.doesNotMatch(shown, /hunter22|long-enough/);
    assert.match(shown, /postgres:\/\/me:\(hidden\)@db\.example/);
    assert.doesNotMatch(refusal({ operatorToken: 'too-short' }), /too-short/);
  });
});
