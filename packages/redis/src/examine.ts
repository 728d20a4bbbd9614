import { type Durability, SpillwayError } from 'spillway';
import type { RedisLink } from './client.ts';
import { commitScript } from './scripts.ts';

/** The keys of a store. */
export interface StoreKeys {
  readonly state: string;
  readonly names: string;
  readonly expiries: string;
  /** The start of every record's key; the name follows. */
  readonly records: string;
  /** The channel on which changes are published. */
  readonly channel: string;
}

const versionMin = [6, 2];

/**
 * Refuses a server that is too old, full, a replica, or may evict records; returns the durability
 * of a commit that waits for no replica.
 */
export async function examine(link: RedisLink, keys: StoreKeys): Promise<Durability> {
  const sections = ['server', 'replication', 'memory', 'persistence'];
  const info = (await Promise.all(sections.map((name) => link.send(['INFO', name])))).join('');
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const refuse = (why: string) => {
    throw new SpillwayError('DATABASE_UNUSABLE', `redis: ${why}`);
  };
  const version = field('redis_version');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [majorMin = 0, minorMin = 0] = versionMin;
  if (major < majorMin || (major === majorMin && minor < minorMin)) {
    refuse(`version ${version} is too old: ${versionMin.join('.')} or newer is needed`);
  }
  if (field('role') === 'slave') refuse('this is a replica; give the address of its master');
  const policy = field('maxmemory_policy');
  if (policy.startsWith('allkeys-')) {
    refuse(`maxmemory-policy ${policy} may remove records; set it to noeviction`);
  }
  // MGET finds nothing in a key of another type, and SET replaces it.
  const { state, names, expiries, records, channel } = keys;
  const type = await link.send(['TYPE', state]);
  if (type !== 'none' && type !== 'string') refuse(`${state} is a ${type}, no store's state`);
  // Writes and removes a record of a name that no caller uses: that fails on a full server, and for
  // a user without a right that is needed later.
  const words = ['4', state, names, expiries, `${records}\0`, '', '', records, channel];
  for (const value of ['1', '']) {
    await link.send(['EVAL', commitScript.lua, ...words, '1', '', value, '1']);
  }
  if (field('aof_enabled') === '0') return 'none';
  // Managed servers forbid CONFIG.
  const setting = await link.send(['CONFIG', 'GET', 'appendfsync']).catch(() => '');
  const isSynced = JSON.stringify(setting).includes('always');
  return field('aof_enabled') === '1' && isSynced ? 'disk' : 'process';
}
