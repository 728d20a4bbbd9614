export { explore } from './explore.ts';
export { FaultyStore, type FaultyStoreOptions } from './faulty-store.ts';
export { type ProcessCase, type ProcessSubject, processCases } from './process-cases.ts';
export { playProcessRole } from './process-role.ts';
export { SimulatedProcess } from './simulated-process.ts';
export { SimulatedThreads, type SimulatedThreadsOptions } from './simulated-threads.ts';
export { type StoreCase, type StoreSubject, storeCases } from './store-cases.ts';
export { VirtualClock } from './virtual-clock.ts';
