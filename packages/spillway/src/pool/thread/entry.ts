import { isMainThread, type MessagePort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { TaskRunner } from './runner.ts';

/** The file that a pool's thread runs. */
if (!isMainThread) {
  const port: MessagePort = workerData.port;
  const runner = new TaskRunner(workerData.start, {
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
