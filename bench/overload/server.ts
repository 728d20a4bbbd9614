// The program of one contender's server: opens it with what the first message says.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { ServerSettings } from './settings.ts';

type Open = (settings: ServerSettings) => Promise<FastifyInstance>;

const open: Readonly<Record<string, () => Promise<{ readonly open: Open }>>> = {
  bare: () => import('./bare.ts'),
  ours: () => import('./ours.ts'),
  piscina: () => import('./piscina.ts'),
  'under-pressure': () => import('./under-pressure.ts'),
};

process.once('disconnect', () => process.exit());
const contender = await open[process.argv[2] ?? '']?.();
if (contender === undefined) throw new Error(`no server ${process.argv[2]}`);
const [settings] = (await once(process, 'message')) as [ServerSettings];
const app = await contender.open(settings);
await app.listen({ port: 0, host: '127.0.0.1' });
process.send?.((app.server.address() as AddressInfo).port);
