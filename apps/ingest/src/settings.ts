import { join } from 'node:path';
import { choice, number, type SettingsOf, SettingsReader, text } from 'spillway-cli';

/** The settings of a command. */
export type Settings = SettingsOf<typeof settingRules>;

const exchangeNames = ['coinbase', 'kraken', 'binance', 'simulated'] as const;

/** The exchanges that can be harvested; `simulated` is the one of `ingest exchange`. */
export type ExchangeName = (typeof exchangeNames)[number];

const url = {
  value: '<url>',
  rule: 'an address like https://example.org, without a slash at its end',
  pattern: /^https?:\/\/\S*[^/\s]$/,
  absent: undefined,
};

const file = { value: '<file>', rule: 'the path of a file', pattern: /./, isPath: true } as const;
const port = { absent: undefined, min: 0, max: 65_535 };

/** Every setting, in the order in which it is shown. */
const settingRules = {
  data: text('where everything is kept (default ./data)', {
    value: '<folder>',
    rule: 'the path of a folder',
    pattern: /./,
    absent: 'data',
    isPath: true,
  }),
  store: text(
    'for checkpoints, locks, the shared rate: sqlite:<file> (in data), postgres://…, redis://…',
    {
      value: '<url>',
      rule: 'sqlite:<file>, postgres://user:password@host:port/database or redis://host:port',
      pattern: /^sqlite:.|^(postgres(ql)?|rediss?):\/\/./,
      absent: '',
      absentIn: (data) => `sqlite:${join(data, 'ingest.db')}`,
      hides: 'password',
    },
  ),
  storeConnections: number('connections of a process to Postgres at most', {
    absent: 10,
    min: 1,
    max: 1_000,
  }),
  exchange: choice('coinbase, kraken, binance or simulated (default coinbase)', {
    value: '<name>',
    words: exchangeNames,
    absent: 'coinbase',
  }),
  source: text('a file that declares another API, instead of an exchange', {
    ...file,
    absent: undefined,
  }),
  baseUrl: text('where the exchange answers (default: its own address)', url),
  feed: text('live trades in follow: on, off, or the address of the feed (default on)', {
    value: '<word>',
    rule: 'on, off, or an address like wss://example.org',
    pattern: /^(on|off|wss?:\/\/\S+)$/,
    absent: 'on',
  }),
  ratePerSecond: number('requests a second, of all processes together', {
    absent: undefined,
    min: 0.01,
    max: 10_000,
    isWhole: false,
  }),
  seedPath: text('the list of products (default <data>/products.yaml)', {
    ...file,
    absent: '',
    absentIn: (data) => join(data, 'products.yaml'),
  }),
  limit: number('trades per request (default: as many as the exchange gives)', {
    absent: undefined,
    min: 1,
    max: 1_000,
  }),
  workers: number('products harvested at once, 1 to 10 (default: found automatically)', {
    absent: undefined,
    min: 1,
    max: 10,
  }),
  chunkConcurrency: number(
    'requests of a product at once, 1 to 25 (default: found automatically)',
    {
      absent: undefined,
      min: 1,
      max: 25,
    },
  ),
  mode: choice('prefix notes gaps and goes on, strict stops at one (default prefix)', {
    value: '<name>',
    words: ['prefix', 'strict'],
    absent: 'prefix',
  }),
  leaseSeconds: number('time for which a product stays locked after a crash', {
    absent: 60,
    min: 1,
    max: 7_200,
  }),
  firstAnswerSeconds: number('time to wait for the first answer of the exchange', {
    absent: 4,
    min: 1,
    max: 600,
  }),
  pauseSecondsMax: number(
    'longest pause to wait out; if the exchange asks for more, the run ends',
    {
      absent: 900,
      min: 1,
      max: 2_592_000,
    },
  ),
  gapsMax: number('gaps that a product may have; one more ends its harvest', {
    absent: 10_000,
    min: 1,
    max: 1_000_000,
  }),
  waitingMbMax: number('MB of fetched pages that may wait to be committed', {
    absent: 80,
    min: 1,
    max: 100_000,
  }),
  memoryMbMax: number('MB that DuckDB may use for long records; 96 otherwise', {
    absent: 1_024,
    min: 96,
    max: 1_000_000,
  }),
  s3Bucket: text('keep raw files and the table in this bucket (default: in data)', {
    value: '<name>',
    rule: 'the name of a bucket',
    pattern: /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    absent: undefined,
  }),
  s3Prefix: text('where in the bucket (default: at its root)', {
    value: '<path>',
    rule: 'a path without a slash at either end',
    pattern: /^[^/\s](\S*[^/\s])?$/,
    absent: '',
  }),
  s3Endpoint: text('the S3 server (default: that of AWS in the region)', url),
  s3Region: text('its region (default AWS_REGION, or us-east-1)', {
    value: '<name>',
    rule: 'the name of a region',
    pattern: /^[\w-]+$/,
    absent: undefined,
  }),
  host: text('where follow and exchange listen (default 127.0.0.1)', {
    value: '<address>',
    rule: 'an address or a name',
    pattern: /^[\w.:-]+$/,
    absent: '127.0.0.1',
  }),
  port: number('their port, 0 for a free one (default 7070, exchange 7071)', port),
  operatorPort: number('a second port for operators, who send the token (default: none)', port),
  operatorToken: text('the token for that port; at least 16 characters', {
    value: '<word>',
    rule: 'a word of 16 to 1024 characters',
    pattern: /^\S{16,1024}$/,
    absent: undefined,
    hides: 'all',
  }),
};

export const settingsReader = new SettingsReader<Settings>({
  program: 'ingest',
  rules: settingRules,
});

export function readSettings(sources: Parameters<typeof settingsReader.read>[0]) {
  return settingsReader.read(sources);
}

/** Port at which `ingest exchange` listens and is looked for, unless that is set otherwise. */
export const simulatedPort = 7071;

/** Products of the simulated exchange, unless others are named. */
export const simulatedProducts: readonly string[] = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
