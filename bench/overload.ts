import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Bench, Contestant } from './contest.ts';
import { type Case, type Contender, figure, type Report, type Running } from './overload/case.ts';
import { cpuMs, iterationsFor, latenessOf, type ServerSettings } from './overload/settings.ts';
import { tuned } from './overload/tuned.ts';
import { untuned } from './overload/untuned.ts';
import { written } from './overload/written.ts';

const cases: readonly Case[] = [...tuned, ...untuned, written];

/** Figures that show whether the bench itself was the limit. */
const clientLate = 'p99 of how late the event loop of the clients was';
const serverLate = 'p99 of how late the event loops of the servers were';
const cpu = 'CPU of clients and servers';
const own = [
  figure(clientLate, 'ms', 'less'),
  figure(serverLate, 'ms', 'less'),
  figure(cpu, '% of a core', 'less'),
];

/**
 * Measures the good answers of an overloaded server, on real sockets: with lanes whose numbers are
 * right, with no configuration, and with lanes whose numbers are as far off as people write them.
 */
export const overload: Bench = {
  contenders: {
    'spillway createServer': () => contestant('ours', 'untuned'),
    'bare Fastify': () => contestant('bare'),
    'under-pressure': () => contestant('under-pressure'),
    'piscina, cockatiel': () => contestant('piscina'),
  },
  yardsticks: [],
  runs: cases.map(({ run }) => ({ ...run, figures: [...run.figures, ...own] })),
};

/** The load comes from this process; each server has one of its own. */
async function contestant(
  kind: Contender['kind'],
  untunedServer: string = kind,
): Promise<Contestant> {
  const iterations = iterationsFor(cpuMs);
  return async (name, quick) => {
    const { isTuned, measure } = cases.find(({ run }) => run.name === name) as Case;
    const program = isTuned ? kind : untunedServer;
    await using stack = new AsyncDisposableStack();
    const servers: Running[] = [];
    const start: Contender['start'] = async (calls) => {
      const server = stack.use(await startServer(program, { iterations, calls }));
      servers.push(server);
      return server;
    };
    const delay = monitorEventLoopDelay();
    delay.enable();
    const startedAt = performance.now();
    const before = process.cpuUsage();
    const result = await measure({ kind, start }, quick);
    const { user, system } = process.cpuUsage(before);
    const reports = await Promise.all(servers.map((server) => server.report()));
    const usedMs = reports.reduce((sum, each) => sum + each.cpuMs, (user + system) / 1_000);
    return {
      ...result,
      [clientLate]: latenessOf(delay),
      [serverLate]: Math.max(...reports.map(({ lateMs }) => lateMs)),
      [cpu]: (100 * usedMs) / (performance.now() - startedAt),
    };
  };
}

async function startServer(
  program: string,
  settings: ServerSettings,
): Promise<Running & AsyncDisposable> {
  const path = join(import.meta.dirname, 'overload', 'server.ts');
  // A server that fails on purpose logs thousands of errors.
  const child = fork(path, [program], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  child.send(settings);
  const [port] = (await once(child, 'message')) as [number];
  return {
    port,
    turn: (route, health) => child.send({ route, health }),
    async report() {
      child.send('report');
      const [report] = (await once(child, 'message')) as [Report];
      return report;
    },
    async [Symbol.asyncDispose]() {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
  };
}
