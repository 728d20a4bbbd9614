import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { TaskRunner } from './runner.ts';

/** The file that a pool's thread runs. */
const port = parentPort;
if (port !== null) {
  const runner = new TaskRunner(workerData, {
    post: (message, transfer) => port.postMessage(message, transfer),
    close: () => process.exit(0),
    clock: systemClock,
  });
  port.on('message', (message) => runner.receive(message));
  port.on('messageerror', (error) => {
    // Tasks that cannot be read are lost; ending the thread is how the pool hears of it.
    throw error;
  });
}
