import { join } from 'node:path';
import {
  choice,
  flag,
  number,
  type SettingRule,
  type SettingRules,
  SettingsReader,
  text,
  UsageError,
  words,
} from 'spillway-cli';
import { type OperatorOptions, operatorSocket } from 'spillway-http';
import type { FetcherOptions } from './fetching/fetcher.ts';
import { inNetworks, isNetwork } from './fetching/public-address.ts';
import type { EmbedderOptions } from './learn/embedder.ts';
import type { Precision } from './learn/embedding-model.ts';

/** The settings of a server or a command; times are milliseconds. */
export interface Settings {
  readonly data: string;
  readonly database: string;
  readonly databaseConnections: number;
  readonly host: string;
  readonly port: number;
  readonly compat: boolean;
  readonly compatPort: number;
  readonly operatorPort: number | undefined;
  readonly operatorToken: string;
  readonly trustProxy: readonly string[];
  readonly log: boolean;
  readonly modelFolder: string;
  readonly modelId: string;
  readonly modelPrecision: Precision;
  readonly workers: number;
  readonly workerAgeMs: number;
  readonly workerIntervalMs: number;
  readonly workerHeapMb: number;
  readonly articlesMax: number;
  readonly sentencesMax: number;
  readonly rankMs: number;
  readonly browser: string;
  readonly browserSandbox: boolean;
  readonly allowPrivate: readonly string[];
  readonly fetchMs: number;
  readonly pageMs: number;
  readonly pageBytes: number;
  readonly imageBytes: number;
  readonly textCharsMin: number;
  readonly freshMs: number;
  readonly hostPerSecond: number;
  readonly keepDays: number;
  readonly tastesMax: number;
  readonly retrainMs: number;
  readonly ratingHalfLifeDays: number;
  readonly halfLifeHours: number;
  readonly explorationShare: number;
  readonly listMax: number;
}

const dayMs = 86_400_000;

/** An integer, or with {@link decimal} any number, from `min` to `max`. */
const whole = <T extends number | undefined>(about: string, absent: T, min: number, max: number) =>
  number(about, { absent, min, max });
const decimal = (about: string, absent: number, min: number, max: number) =>
  number(about, { absent, min, max, isWhole: false });

/** A list of networks, or of a word that stands for some. */
function networks(about: string, word: string, rule: string): SettingRule<readonly string[]> {
  const list = words(about, { value: '<networks>', rule, pattern: /./ });
  const isRight = (one: string) => one === word || isNetwork(one);
  const read = (sent: unknown) => {
    const found = list.read(sent);
    return found?.every(isRight) ? found : undefined;
  };
  return { ...list, read };
}

/** Each setting in the order in which it is shown. */
export const settingRules: SettingRules<Settings> = {
  data: text('where everything is kept (default ./data)', {
    absent: 'data',
    value: '<folder>',
    rule: 'the path of a folder',
    pattern: /./,
    isPath: true,
  }),
  database: text('sqlite:<file> or postgres://… (default sqlite:<data>/ranker.db)', {
    absent: '',
    value: '<url>',
    rule: 'sqlite:<file> or postgres://user:password@host:port/database',
    pattern: /^sqlite:.|^postgres(ql)?:\/\/./,
    absentIn: (data) => `sqlite:${join(data, 'ranker.db')}`,
    hides: 'password',
  }),
  databaseConnections: whole('connections of a process to Postgres at most', 10, 1, 1_000),
  host: text('address to listen at (default 127.0.0.1)', {
    absent: '127.0.0.1',
    value: '<address>',
    rule: 'an address or a name',
    pattern: /^[\w.:-]+$/,
  }),
  port: whole('port to listen at, 0 for a free one', 19_090, 0, 65_535),
  compat: flag('whether to answer on a second port exactly as news-score does', false),
  compatPort: whole('that port, 0 for a free one', 19_091, 0, 65_535),
  operatorPort: whole(
    'port for operators, who send the token (default: none)',
    undefined,
    0,
    65_535,
  ),
  operatorToken: text('the token for that port (default: none)', {
    absent: '',
    value: '<word>',
    rule: 'a word of 16 to 1024 characters',
    pattern: /^(\S{16,1024})?$/,
    hides: 'all',
  }),
  trustProxy: networks(
    'proxies whose X-Forwarded-For is believed, with commas (default: none)',
    'loopback',
    'addresses or networks like 10.0.0.0/8, or loopback',
  ),
  log: flag('warnings as lines of JSON on stderr', false),
  modelFolder: text('folder of another sentence model (default: the one shipped)', {
    absent: '',
    value: '<folder>',
    rule: 'the path of a folder',
    pattern: /^/,
  }),
  modelId: text('the name kept with that model’s vectors', {
    absent: '',
    value: '<name>',
    rule: 'a name',
    pattern: /^\S*$/,
  }),
  modelPrecision: choice<Precision>('how its weights are stored (default int8)', {
    value: '<precision>',
    words: ['fp16', 'fp32', 'int8'],
    absent: 'int8',
  }),
  workers: whole('threads that embed; 0: one less than cores, at most 4', 0, 0, 64),
  workerAgeMs: whole('age at which a worker is replaced', 600_000, 1_000, dayMs),
  workerIntervalMs: whole('from one replacement of a worker to the next', 60_000, 0, dayMs),
  workerHeapMb: whole('a worker is replaced above this heap', 512, 32, 65_536),
  articlesMax: whole('articles being embedded at once; one more gets 503', 64, 1, 10_000),
  sentencesMax: whole('sentences of an article that are embedded', 16, 1, 400),
  rankMs: whole('how long an answer may take', 30_000, 100, 600_000),
  browser: text('for pages that need scripts: auto, off or a path (default auto)', {
    absent: 'auto',
    value: '<auto|off|path>',
    rule: 'auto, off or a path',
    pattern: /./,
  }),
  browserSandbox: flag('whether the browser uses its sandbox, which some containers forbid', true),
  allowPrivate: networks(
    'private networks that may be fetched, or all (default: none)',
    'all',
    'networks like 192.168.1.0/24, or all',
  ),
  fetchMs: whole('how long a fetch may take', 15_000, 100, 600_000),
  pageMs: whole('how long a fetch by the browser may take', 45_000, 100, 600_000),
  pageBytes: whole('the longest page or feed, in bytes', 5_242_880, 1_024, 104_857_600),
  imageBytes: whole('the disk space for pictures of articles, in bytes', 2 ** 29, 2 ** 20, 2 ** 40),
  textCharsMin: whole('the shortest text of an article, in characters', 100, 1, 10_000),
  freshMs: whole('how long a fetched text is not fetched again', dayMs, 0, 365 * dayMs),
  hostPerSecond: decimal('requests to one host each second', 2, 0.01, 100),
  keepDays: whole('days after which unrated articles are deleted', 90, 1, 36_500),
  tastesMax: whole('tastes in memory; others are loaded when they are needed', 64, 1, 10_000),
  retrainMs: whole('time between two trainings of changed tastes', 7_200_000, 60_000, 365 * dayMs),
  ratingHalfLifeDays: whole('days after which a rating counts half', 365, 1, 36_500),
  halfLifeHours: decimal('hours after which an article counts half in the list', 36, 1, 8_760),
  explorationShare: decimal('share of the list for articles whose score is unsure', 0.1, 0, 0.5),
  listMax: whole('how many of the newest articles the list orders', 1_000, 10, 10_000),
};

export const settingsReader: SettingsReader<Settings> = new SettingsReader({
  program: 'ranker',
  rules: settingRules,
  otherVariables: ['RANKER_KEY', 'RANKER_URL'],
});

/** The settings that help shows; the others are for `ranker.json`, and `ranker config` has all. */
export const settingsInHelp: readonly (keyof Settings)[] = [
  ...(['data', 'database', 'host', 'port', 'compat', 'compatPort', 'operatorPort'] as const),
  ...(['operatorToken', 'trustProxy', 'log', 'workers', 'browser', 'browserSandbox'] as const),
  ...(['allowPrivate', 'imageBytes', 'keepDays', 'ratingHalfLifeDays', 'halfLifeHours'] as const),
];

/** The settings whose values operators see; of the others they see whether they are set. */
const shownToOperators = settingsReader.names.filter((name) => !('hides' in settingRules[name]));

/** The operator interface: a socket in the data folder, and a port if one is set. */
export function operatorOptions(settings: Settings): OperatorOptions {
  const { data, host, operatorPort: port, operatorToken: token } = settings;
  const isComplete = port === undefined || token !== '';
  if (!isComplete) throw new UsageError('--operator-port: needs --operator-token');
  return {
    socket: operatorSocket(data),
    remote: port === undefined ? undefined : { host, port, token },
    config: { values: { ...settings }, shown: shownToOperators },
  };
}

/** The options of the model. */
export function embedderOptions(settings: Settings): EmbedderOptions {
  const { modelFolder: folder, modelId, modelPrecision: precision, workers } = settings;
  return {
    model: folder === '' ? undefined : { id: modelId || folder, precision, folder },
    workers: workers === 0 ? undefined : workers,
    workerAgeMsMax: settings.workerAgeMs,
    workerIntervalMs: settings.workerIntervalMs,
    workerHeapMbMax: settings.workerHeapMb,
    articlesMax: settings.articlesMax,
    sentencesMax: settings.sentencesMax,
    deadlineMs: settings.rankMs,
  };
}

/** The options for fetching pages. */
export function fetcherOptions(settings: Settings): FetcherOptions {
  const { browser, browserSandbox: sandbox, allowPrivate: networks } = settings;
  const path = browser === 'auto' ? undefined : browser;
  return {
    browser: browser === 'off' ? 'off' : { path, sandbox },
    allow: networks.includes('all') ? () => true : inNetworks(networks),
    fetchMsMax: settings.fetchMs,
    pageMsMax: settings.pageMs,
    bytesMax: settings.pageBytes,
    textCharsMin: settings.textCharsMin,
    politeness: { ratePerSecond: settings.hostPerSecond },
  };
}
