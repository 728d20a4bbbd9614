export { explore } from './explore.ts';
export { VirtualClock } from './virtual-clock.ts';
