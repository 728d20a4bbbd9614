import { once } from 'node:events';
import type { Service } from 'spillway';
import { StopSignal } from 'spillway/internal';
import { exitCodes } from './program.ts';

/** Stops a service when this process is told to, from when it is made: also while it starts. */
export class ServiceStop {
  readonly #stop = new StopSignal({
    first: 'what has begun is finished first',
    left: () => `Not stopped: ${left(this.#service)}`,
  });
  #service: Service | undefined;

  /** Serves until it is asked to stop; gives the exit code. */
  async stop(service: Service): Promise<number> {
    this.#service = service;
    const { signal } = this.#stop;
    if (!signal.aborted) await once(signal, 'abort');
    try {
      await service.close();
      process.stderr.write('Stopped; nothing was left.\n');
      return exitCodes.ok;
    } catch (error) {
      process.stderr.write(`${(error as Error).message}\n`);
      return exitCodes.failed;
    } finally {
      if (process.connected) process.disconnect();
    }
  }
}

function left(service: Service | undefined): string {
  const parts = service?.stats.parts ?? [];
  const names = parts.filter(({ state }) => state !== 'closed' && state !== 'new');
  return names.map(({ name }) => name).join(', ') || 'nothing';
}
