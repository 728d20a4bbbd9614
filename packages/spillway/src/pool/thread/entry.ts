import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { PoolHost } from './host.ts';

/** The file that a pool's thread runs. */
const port = parentPort;
if (port !== null) {
  const host = new PoolHost(workerData, {
    post: (message, transfer) => port.postMessage(message, transfer),
    close: () => process.exit(0),
    clock: systemClock,
  });
  port.on('message', (message) => host.receive(message));
}
