import { join } from 'node:path';
import { UsageError } from 'spillway-cli';
import { operatorSocket } from 'spillway-http';
import { inNetworks } from './fetching/public-address.ts';
import type { Precision } from './learn/embedding-model.ts';
import type { OpenRankerOptions } from './open-ranker.ts';
import type { Settings } from './setting-list.ts';

/** The settings whose values operators see; of all others they see whether they are set. */
const shown: readonly (keyof Settings)[] = [
  'data',
  'databaseConnections',
  'host',
  'port',
  'compat',
  'compatPort',
  'operatorPort',
  'trustProxy',
  'log',
  'modelId',
  'modelPrecision',
  'workers',
  'rankMs',
  'fetchMs',
  'keepDays',
  'retrainMs',
  'tastesMax',
  'articlesMax',
];

/** The time in which a proxy notices that the server is about to close, in milliseconds. */
const lameDuckMs = 2_000;

function operatorOf(settings: Settings): OpenRankerOptions['operator'] {
  const { data, host, operatorPort: port, operatorToken: token } = settings;
  const isComplete = port === undefined || token !== '';
  if (!isComplete) throw new UsageError('--operator-port: needs --operator-token');
  return {
    socket: operatorSocket(data),
    remote: port === undefined ? undefined : { host, port, token },
    config: { values: { ...settings }, shown },
  };
}

function allowed(networks: readonly string[]): (address: string) => boolean {
  return networks.includes('all') ? () => true : inNetworks(networks);
}

/** The options that a server is opened with, from its settings. */
export function rankerOptions(settings: Settings): OpenRankerOptions {
  const { modelFolder, modelId, workers, browser, browserSandbox: sandbox } = settings;
  const precision = settings.modelPrecision as Precision;
  const model = { id: modelId || modelFolder, precision, folder: modelFolder };
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
