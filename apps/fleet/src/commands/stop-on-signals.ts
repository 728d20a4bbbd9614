import { constants } from 'node:os';
import { type Service, systemClock } from 'spillway';

/** Until then a second signal is the same Ctrl-C: npm passes on what the terminal sent too. */
const sameMs = 500;

/**
 * Serves until SIGINT, SIGTERM or the end of who started this process; gives the exit code. A
 * second Ctrl-C ends the process at once.
 */
export async function stopOnSignals(service: Service): Promise<number> {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let askedAt: number | undefined;
  const end = (name: NodeJS.Signals) => {
    const now = systemClock.now();
    if (askedAt !== undefined && now - askedAt < sameMs) return;
    if (askedAt !== undefined) {
      process.stderr.write(`${name} again: ended at once. Not stopped: ${left(service)}\n`);
      process.exit(128 + constants.signals[name]);
    }
    askedAt = now;
    resolve();
  };
  process.on('SIGTERM', end).on('SIGINT', end);
  process.once('disconnect', () => end('SIGTERM'));
  await asked;
  process.stderr.write('Stopping: what has begun is finished first. Once more ends it at once.\n');
  try {
    await service.stop();
    process.stderr.write('Stopped; nothing was left.\n');
    return 0;
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    return 1;
  } finally {
    if (process.connected) process.disconnect();
  }
}

function left(service: Service): string {
  const parts = service.stats.parts.filter(({ state }) => state !== 'stopped' && state !== 'new');
  return parts.map(({ name }) => name).join(', ') || 'nothing';
}
