export type { RedisClient } from './client.ts';
export { RedisStore, type RedisStoreOptions, type RedisStoreStats } from './store.ts';
