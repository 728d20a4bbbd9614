import { createHash } from 'node:crypto';
import type { HarvestCheckpoint, Json } from 'spillway';
import type { TradePosition } from '../connectors/connector.ts';
import { harvestingError } from './harvesting-error.ts';

/** How far one generation of a product has been harvested, as it is stored. */
export interface ProductCheckpoint {
  readonly harvest: HarvestCheckpoint<TradePosition>;
  /** Where it began when there was nothing yet. */
  readonly begin: TradePosition;
  /** Trades committed so far. */
  readonly trades: number;
  /** The highest id committed; 0 for none. */
  readonly highestId: number;
  /** The run that made it, and when: ISO 8601 in UTC. */
  readonly runId: string;
  readonly updatedAt: string;
}

/** Grows when a program of before could misread what is stored. */
const schemaVersion = 1;

/** The record, with its version and a checksum over all of it. */
export function checkpointRecord(checkpoint: ProductCheckpoint): Json {
  const body = { schemaVersion, ...checkpoint } as unknown as { readonly [key: string]: Json };
  return { ...body, checksum: checksumOf(body) };
}

/** What a record holds; rejects what is damaged, or of a newer program, and never guesses. */
export function readCheckpoint(name: string, record: Json): ProductCheckpoint {
  const isObject = typeof record === 'object' && record !== null && !Array.isArray(record);
  const { checksum, ...body } = (isObject ? record : {}) as { readonly [key: string]: Json };
  const version = body.schemaVersion;
  if (typeof version === 'number' && version > schemaVersion) {
    const message = `${name}: its schemaVersion is ${version}, this program knows ${schemaVersion}`;
    throw harvestingError('CHECKPOINT_FUTURE', `${message}; nothing was changed, use a newer one`);
  }
  const expected = checksumOf(body);
  if (version !== schemaVersion || checksum !== expected) {
    const what = version === schemaVersion ? 'its checksum does not fit' : 'it is no checkpoint';
    const remedy = 'nothing was changed; restore the store, or make the product anew with';
    const message = `${name}: ${what}; ${remedy} --full-refresh`;
    throw harvestingError('CHECKPOINT_UNREADABLE', message);
  }
  const { schemaVersion: _known, ...checkpoint } = body;
  return checkpoint as unknown as ProductCheckpoint;
}

function checksumOf(body: Json): string {
  return createHash('sha256').update(canonical(body)).digest('hex');
}

/** The same text for the same value, in whatever order a database gives back its keys. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_key, part: Json) => {
    const isObject = typeof part === 'object' && part !== null && !Array.isArray(part);
    if (!isObject) return part;
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
