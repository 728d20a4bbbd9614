export { explore } from './explore.ts';
export { SimulatedThreads, type SimulatedThreadsOptions } from './simulated-threads.ts';
export { VirtualClock } from './virtual-clock.ts';
