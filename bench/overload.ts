import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Bench, Contestant } from './contest.ts';
import type { Case, Running } from './overload/case.ts';
import { cpuMs, iterationsFor, type ServerSettings } from './overload/settings.ts';
import { tuned } from './overload/tuned.ts';
import { untuned } from './overload/untuned.ts';

const cases: readonly Case[] = [...tuned, ...untuned];

/**
 * Measures the good answers of a server that is asked for more than it can do, on real sockets:
 * with lanes whose numbers are right, with numbers as people write them, and with none.
 */
export const overload: Bench = {
  contenders: {
    'spillway createServer': () => contestant('ours', 'untuned'),
    'bare Fastify': () => contestant('bare'),
    'under-pressure': () => contestant('under-pressure'),
    'piscina, cockatiel': () => contestant('piscina'),
  },
  yardsticks: [],
  runs: cases.map(({ run }) => run),
};

/** The load comes from this process; the server of each run has one of its own. */
async function contestant(server: string, untunedServer: string = server): Promise<Contestant> {
  const iterations = iterationsFor(cpuMs);
  return async (name, quick) => {
    const { isTuned, settings, measure } = cases.find(({ run }) => run.name === name) as Case;
    const program = isTuned ? server : untunedServer;
    await using running = await start(program, { ...settings, iterations });
    return await measure(running, quick);
  };
}

async function start(server: string, settings: ServerSettings): Promise<Running & AsyncDisposable> {
  const child = fork(join(import.meta.dirname, 'overload', 'server.ts'), [server]);
  child.send(settings);
  const [port] = (await once(child, 'message')) as [number];
  return {
    port,
    turn: (health) => child.send({ health }),
    async [Symbol.asyncDispose]() {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
  };
}
