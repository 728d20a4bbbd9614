// A deadline is a signal: pass it to every call that waits, and dispose of it after the work.
import { deadline, SpillwayError, systemClock } from 'spillway';

async function slowLookup(signal: AbortSignal): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  signal.addEventListener('abort', () => reject(signal.reason));
  using _timer = systemClock.after(60_000, () => resolve('too late to matter'));
  return await promise;
}

try {
  using limit = deadline(systemClock, 20);
  console.log(await slowLookup(limit.signal));
} catch (error) {
  if (!(error instanceof SpillwayError)) throw error;
  console.log(`${error.code}: answer with ${error.status} (${error.message})`);
}
