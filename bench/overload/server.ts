// The program of one contender's server: opens it with what the first message says.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { ServerSettings } from './settings.ts';

type Open = (settings: ServerSettings) => Promise<FastifyInstance>;

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
const app = await contender(settings);
await app.listen({ port: 0, host: '127.0.0.1' });
process.send?.((app.server.address() as AddressInfo).port);
