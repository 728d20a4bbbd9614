import { join } from 'node:path';
import {
  choice,
  flag,
  number,
  type SettingRules,
  SettingsReader,
  text,
  UsageError,
  words,
} from 'spillway-cli';
import { operatorSocket } from 'spillway-http';
import { inNetworks } from './fetching/public-address.ts';
import type { Precision } from './learn/embedding-model.ts';
import type { OpenRankerOptions } from './open-ranker.ts';

/** All that can be set when a server or a command starts; times are milliseconds. */
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
  databaseConnections: number('connections of a process to Postgres at most', {
    absent: 10,
    min: 1,
    max: 1_000,
  }),
  host: text('address to listen at (default 127.0.0.1)', {
    absent: '127.0.0.1',
    value: '<address>',
    rule: 'an address or a name',
    pattern: /^[\w.:-]+$/,
  }),
  port: number('port to listen at, 0 for a free one', { absent: 19_090, min: 0, max: 65_535 }),
  compat: flag('whether to answer on a second port exactly as news-score does', false),
  compatPort: number('that port, 0 for a free one', { absent: 19_091, min: 0, max: 65_535 }),
  operatorPort: number('a second port for operators, who send the token (default: none)', {
    absent: undefined,
    min: 0,
    max: 65_535,
  }),
  operatorToken: text('the token for that port (default: none)', {
    absent: '',
    value: '<word>',
    rule: 'a word of 16 to 1024 characters',
    pattern: /^(\S{16,1024})?$/,
    hides: 'all',
  }),
  trustProxy: words('proxies whose X-Forwarded-For is believed, with commas (default: none)', {
    value: '<addresses>',
    rule: 'addresses or nets like 10.0.0.0/8',
    pattern: /^[0-9a-f.:/]+$|^loopback$/,
  }),
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
  workers: number('threads that embed; 0: one less than cores, at most 4', {
    absent: 0,
    min: 0,
    max: 64,
  }),
  workerAgeMs: number('a worker is replaced after this', {
    absent: 600_000,
    min: 1_000,
    max: dayMs,
  }),
  workerIntervalMs: number('from one replacement of a worker to the next', {
    absent: 60_000,
    min: 0,
    max: dayMs,
  }),
  workerHeapMb: number('a worker is replaced above this heap', {
    absent: 512,
    min: 32,
    max: 65_536,
  }),
  articlesMax: number('articles being embedded at once; one more gets 503', {
    absent: 64,
    min: 1,
    max: 10_000,
  }),
  sentencesMax: number('sentences of an article that are embedded', {
    absent: 16,
    min: 1,
    max: 400,
  }),
  rankMs: number('how long an answer may take', { absent: 30_000, min: 100, max: 600_000 }),
  browser: text('for pages that need scripts: auto, off or a path (default auto)', {
    absent: 'auto',
    value: '<auto|off|path>',
    rule: 'auto, off or a path',
    pattern: /./,
  }),
  browserSandbox: flag(
    'whether the browser must have its sandbox, which some containers forbid',
    true,
  ),
  allowPrivate: words('private networks that may be fetched, or all (default: none)', {
    value: '<networks>',
    rule: 'networks like 192.168.1.0/24, or all',
    pattern: /^[0-9a-f.:]+(\/\d{1,3})?$|^all$/,
  }),
  fetchMs: number('how long a fetch may take', { absent: 15_000, min: 100, max: 600_000 }),
  pageMs: number('how long a fetch by the browser may take', {
    absent: 45_000,
    min: 100,
    max: 600_000,
  }),
  pageBytes: number('the longest page or feed, in bytes', {
    absent: 5_242_880,
    min: 1_024,
    max: 104_857_600,
  }),
  imageBytes: number('the disk space for pictures of articles, in bytes', {
    absent: 536_870_912,
    min: 1_048_576,
    max: 1_099_511_627_776,
  }),
  textCharsMin: number('an article has at least so many characters', {
    absent: 100,
    min: 1,
    max: 10_000,
  }),
  freshMs: number('how long a fetched text is good for', {
    absent: dayMs,
    min: 0,
    max: 365 * dayMs,
  }),
  hostPerSecond: number('requests to one host each second', {
    absent: 2,
    min: 0.01,
    max: 100,
    isWhole: false,
  }),
  keepDays: number('unrated articles go after so many days', { absent: 90, min: 1, max: 36_500 }),
  tastesMax: number('tastes in memory; others are loaded when asked for', {
    absent: 64,
    min: 1,
    max: 10_000,
  }),
  retrainMs: number('changed tastes are trained intensively this often', {
    absent: 7_200_000,
    min: 60_000,
    max: 365 * dayMs,
  }),
  ratingHalfLifeDays: number('a rating counts half after so many days', {
    absent: 365,
    min: 1,
    max: 36_500,
  }),
  halfLifeHours: number('on the reader page an article counts half after so many hours', {
    absent: 36,
    min: 1,
    max: 8_760,
    isWhole: false,
  }),
  explorationShare: number('how much of that page is for articles of unsure score', {
    absent: 0.1,
    min: 0,
    max: 0.5,
    isWhole: false,
  }),
  listMax: number('how many articles that page orders, newest first', {
    absent: 1_000,
    min: 10,
    max: 10_000,
  }),
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

/** The time in which a proxy notices that the server is about to close, in milliseconds. */
const lameDuckMs = 2_000;

/** The settings whose values operators see; of the others they see whether they are set. */
const shownToOperators = settingsReader.names.filter((name) => !('hides' in settingRules[name]));

function operatorOf(settings: Settings): OpenRankerOptions['operator'] {
  const { data, host, operatorPort: port, operatorToken: token } = settings;
  const isComplete = port === undefined || token !== '';
  if (!isComplete) throw new UsageError('--operator-port: needs --operator-token');
  return {
    socket: operatorSocket(data),
    remote: port === undefined ? undefined : { host, port, token },
    config: { values: { ...settings }, shown: shownToOperators },
  };
}

function allowed(networks: readonly string[]): (address: string) => boolean {
  return networks.includes('all') ? () => true : inNetworks(networks);
}

/** The options that a server is opened with, from its settings. */
export function rankerOptions(settings: Settings): OpenRankerOptions {
  const { modelFolder, modelId, workers, browser, browserSandbox: sandbox } = settings;
  const model = {
    id: modelId || modelFolder,
    precision: settings.modelPrecision,
    folder: modelFolder,
  };
  return {
    ...{ database: settings.database, host: settings.host, port: settings.port },
    databaseConnections: settings.databaseConnections,
    compatPort: settings.compat ? settings.compatPort : undefined,
    operator: operatorOf(settings),
    trustProxy: settings.trustProxy.length > 0 ? settings.trustProxy : false,
    lameDuckMs: settings.trustProxy.length > 0 ? lameDuckMs : 0,
    log: settings.log || undefined,
    rankMs: settings.rankMs,
    freshMs: settings.freshMs,
    keepMs: settings.keepDays * 86_400_000,
    retrainMs: settings.retrainMs,
    tastesMax: settings.tastesMax,
    imageFolder: join(settings.data, 'images'),
    imageBytesMax: settings.imageBytes,
    ratingHalfLifeDays: settings.ratingHalfLifeDays,
    desks: {
      halfLifeHours: settings.halfLifeHours,
      explorationShare: settings.explorationShare,
      articlesMax: settings.listMax,
    },
    embedder: {
      model: modelFolder === '' ? undefined : model,
      workers: workers === 0 ? undefined : workers,
      workerAgeMsMax: settings.workerAgeMs,
      workerIntervalMs: settings.workerIntervalMs,
      workerHeapMbMax: settings.workerHeapMb,
      articlesMax: settings.articlesMax,
      sentencesMax: settings.sentencesMax,
      deadlineMs: settings.rankMs,
    },
    fetcher: {
      browser:
        browser === 'off' ? 'off' : { path: browser === 'auto' ? undefined : browser, sandbox },
      allow: allowed(settings.allowPrivate),
      fetchMsMax: settings.fetchMs,
      pageMsMax: settings.pageMs,
      bytesMax: settings.pageBytes,
      textCharsMin: settings.textCharsMin,
      politeness: { ratePerSecond: settings.hostPerSecond },
    },
  };
}
