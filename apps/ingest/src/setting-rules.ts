import { join } from 'node:path';

/** All that can be set when a command starts. */
export interface Settings {
  readonly data: string;
  readonly store: string;
  readonly exchange: ExchangeName;
  readonly baseUrl: string | undefined;
  readonly ratePerSecond: number | undefined;
  readonly seedPath: string;
  readonly limit: number | undefined;
  readonly workers: number | undefined;
  readonly chunkConcurrency: number | undefined;
  readonly mode: 'prefix' | 'strict';
  readonly leaseSeconds: number;
  readonly s3Bucket: string | undefined;
  readonly s3Prefix: string;
  readonly s3Endpoint: string | undefined;
  readonly s3Region: string | undefined;
  readonly host: string;
  readonly port: number | undefined;
  readonly operatorToken: string | undefined;
}

export type SettingName = keyof Settings;

/** The exchanges that can be harvested; `simulated` is the one of `ingest exchange`. */
export type ExchangeName = 'coinbase' | 'kraken' | 'binance' | 'simulated';

export const exchangeNames: readonly ExchangeName[] = [
  'coinbase',
  'kraken',
  'binance',
  'simulated',
];

/** One thing that can be set. */
export interface SettingRule<T> {
  /** What stands for the value in a help text. */
  readonly value: string;
  readonly about: string;
  /** Completes "must be". */
  readonly rule: string;
  /** Undefined for what breaks the rule. */
  readonly read: (sent: unknown) => T | undefined;
  /** What it is when nobody sets it. */
  readonly absent: T | ((data: string) => T);
  /** It is shown to nobody. */
  readonly secret?: true;
  /** It names a file or a folder; in a settings file, from where that lies. */
  readonly isPath?: true;
}

type Common = Pick<SettingRule<unknown>, 'value' | 'about' | 'secret' | 'isPath'>;

/** Text that matches; of a number, its digits. */
function text<T extends string | undefined>(
  common: Common,
  rule: string,
  pattern: RegExp,
  absent: T | ((data: string) => T),
): SettingRule<string | T> {
  const read = (sent: unknown) => {
    const words = typeof sent === 'number' ? String(sent) : sent;
    if (typeof words !== 'string') return undefined;
    return pattern.test(words.trim()) ? words.trim() : undefined;
  };
  return { ...common, rule, read, absent };
}

function number<T extends number | undefined>(
  common: Common,
  { kind, min, max }: { readonly kind: 'an integer' | 'a number'; min: number; max: number },
  absent: T,
): SettingRule<number | T> {
  const read = (sent: unknown) => {
    const isWritten = typeof sent === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(sent);
    const value = isWritten ? Number(sent) : sent;
    if (typeof value !== 'number' || !(value >= min && value <= max)) return undefined;
    return kind === 'a number' || Number.isInteger(value) ? value : undefined;
  };
  return { ...common, rule: `${kind} from ${min} to ${max}`, read, absent };
}

function word<T extends string>(common: Common, words: readonly T[], absent: T): SettingRule<T> {
  const rule = `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
  return { ...common, rule, read: (sent) => words.find((each) => each === sent), absent };
}

const bucketPattern = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const urlPattern = /^https?:\/\/\S*[^/\s]$/;
const urlRule = 'an address like https://example.org, without a slash at its end';
const integer = 'an integer';

/** Every setting, in the order in which it is shown. */
export const settingRules: { readonly [Name in SettingName]: SettingRule<Settings[Name]> } = {
  data: text(
    { value: '<folder>', about: 'where everything is kept (default ./data)', isPath: true },
    'the path of a folder',
    /./,
    'data',
  ),
  store: text(
    {
      value: '<url>',
      about: 'checkpoints, locks, the shared rate: sqlite:<file> (default in data) or postgres://…',
      secret: true,
    },
    'sqlite:<file> or postgres://user:password@host:port/database',
    /^sqlite:.|^postgres(ql)?:\/\/./,
    (data) => `sqlite:${join(data, 'ingest.db')}`,
  ),
  exchange: word(
    { value: '<name>', about: 'coinbase, kraken, binance or simulated (default coinbase)' },
    exchangeNames,
    'coinbase',
  ),
  baseUrl: text(
    { value: '<url>', about: 'where the exchange answers (default: its own address)' },
    urlRule,
    urlPattern,
    undefined,
  ),
  ratePerSecond: number(
    { value: '<number>', about: 'requests a second, of all processes together' },
    { kind: 'a number', min: 0.01, max: 10_000 },
    undefined,
  ),
  seedPath: text(
    { value: '<file>', about: 'the list of products (default <data>/products.yaml)', isPath: true },
    'the path of a file',
    /./,
    (data) => join(data, 'products.yaml'),
  ),
  limit: number(
    { value: '<number>', about: 'trades in a request (default: as many as it gives)' },
    { kind: integer, min: 1, max: 1_000 },
    undefined,
  ),
  workers: number(
    { value: '<number>', about: 'products at once, 1 to 10 (default: as many as are of use)' },
    { kind: integer, min: 1, max: 10 },
    undefined,
  ),
  chunkConcurrency: number(
    { value: '<number>', about: 'requests of a product at once, 1 to 25 (default: finds itself)' },
    { kind: integer, min: 1, max: 25 },
    undefined,
  ),
  mode: word(
    {
      value: '<name>',
      about: 'prefix notes gaps and goes on, strict stops at one (default prefix)',
    },
    ['prefix', 'strict'],
    'prefix',
  ),
  leaseSeconds: number(
    { value: '<number>', about: 'how long a product stays locked after a crash (default 60)' },
    { kind: integer, min: 1, max: 7_200 },
    60,
  ),
  s3Bucket: text(
    { value: '<name>', about: 'keep raw files and the table in this bucket (default: in data)' },
    'the name of a bucket',
    bucketPattern,
    undefined,
  ),
  s3Prefix: text(
    { value: '<path>', about: 'where in the bucket (default: at its root)' },
    'a path without a slash at either end',
    /^[^/\s](\S*[^/\s])?$/,
    '',
  ),
  s3Endpoint: text(
    { value: '<url>', about: 'the S3 server (default: that of AWS in the region)' },
    urlRule,
    urlPattern,
    undefined,
  ),
  s3Region: text(
    { value: '<name>', about: 'its region (default AWS_REGION, or us-east-1)' },
    'the name of a region',
    /^[\w-]+$/,
    undefined,
  ),
  host: text(
    { value: '<address>', about: 'where follow and exchange listen (default 127.0.0.1)' },
    'an address or a name',
    /^[\w.:-]+$/,
    '127.0.0.1',
  ),
  port: number(
    { value: '<number>', about: 'their port, 0 for a free one (default 7070, exchange 7071)' },
    { kind: integer, min: 0, max: 65_535 },
    undefined,
  ),
  operatorToken: text(
    {
      value: '<word>',
      about: 'lets operators of other machines in; at least 16 characters',
      secret: true,
    },
    'a word of 16 to 1024 characters',
    /^\S{16,1024}$/,
    undefined,
  ),
};
