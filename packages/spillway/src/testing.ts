export { explore } from './testing/explore.ts';
export { FaultyStore, type FaultyStoreOptions } from './testing/faulty-store.ts';
export { type ProcessCase, type ProcessSubject, processCases } from './testing/process-cases.ts';
export { playProcessRole } from './testing/process-role.ts';
export { type StoreCase, type StoreSubject, storeCases } from './testing/store-cases.ts';
export { VirtualClock } from './testing/virtual-clock.ts';
