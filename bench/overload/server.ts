// The program of one contender's server: opens it with the settings in the first message.
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { calls } from './calls.ts';
import type { Report } from './case.ts';
import { latenessOf, type ServerSettings } from './settings.ts';

/** Opens a contender's server, and gives its port. */
export type Open = (settings: ServerSettings) => Promise<number>;

const open: Readonly<Record<string, () => Promise<Open>>> = {
  bare: async () => (await import('./bare.ts')).open,
  ours: async () => (await import('./ours.ts')).open,
  untuned: async () => (await import('./ours.ts')).openUntuned,
  piscina: async () => (await import('./piscina.ts')).open,
  'under-pressure': async () => (await import('./under-pressure.ts')).open,
};

process.once('disconnect', () => process.exit());
const contender = await open[process.argv[2] ?? '']?.();
if (contender === undefined) throw new Error(`no server ${process.argv[2]}`);
const [settings] = (await once(process, 'message')) as [ServerSettings];
const port = await contender(settings);
const before = process.cpuUsage();
const delay = monitorEventLoopDelay();
delay.enable();
process.on('message', (message) => {
  if (message !== 'report') return;
  const { user, system } = process.cpuUsage(before);
  const report: Report = { cpuMs: (user + system) / 1_000, lateMs: latenessOf(delay), calls };
  process.send?.(report);
});
process.send?.(port);
