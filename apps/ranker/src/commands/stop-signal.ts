import { constants } from 'node:os';
import { type Service, systemClock } from 'spillway';

/** Until then a second signal is the same Ctrl-C: npm passes on what the terminal sent too. */
const sameMs = 500;

/** Hears SIGINT, SIGTERM and the end of who started this process, from when it is made. */
export class StopSignal {
  readonly #asked = Promise.withResolvers<void>();
  #askedAt: number | undefined;
  #service: Service | undefined;

  constructor() {
    const end = (name: NodeJS.Signals) => this.#end(name);
    process.on('SIGTERM', end).on('SIGINT', end);
    process.once('disconnect', () => end('SIGTERM'));
  }

  /** Serves until it is asked to stop; gives the exit code. */
  async stop(service: Service): Promise<number> {
    this.#service = service;
    await this.#asked.promise;
    process.stderr.write(
      'Stopping: what has begun is finished first. Once more ends it at once.\n',
    );
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

  /** A second Ctrl-C ends the process at once. */
  #end(name: NodeJS.Signals): void {
    const now = systemClock.now();
    if (this.#askedAt !== undefined && now - this.#askedAt < sameMs) return;
    if (this.#askedAt !== undefined) {
      process.stderr.write(`${name} again: ended at once. Not stopped: ${left(this.#service)}\n`);
      process.exit(128 + constants.signals[name]);
    }
    this.#askedAt = now;
    this.#asked.resolve();
  }
}

function left(service: Service | undefined): string {
  const parts = service?.stats.parts ?? [];
  const names = parts.filter(({ state }) => state !== 'stopped' && state !== 'new');
  return names.map(({ name }) => name).join(', ') || 'nothing';
}
