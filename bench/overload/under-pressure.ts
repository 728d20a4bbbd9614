import underPressure from '@fastify/under-pressure';
import Fastify from 'fastify';
import { spin } from '../pool/tasks.ts';
import { addCallRoutes, addRoutes, listen } from './bare.ts';
import { cpuMs, type ServerSettings } from './settings.ts';

/** Refuses while the event loop is late; it samples more often than by default, to its benefit. */
export async function open(settings: ServerSettings): Promise<number> {
  const app = Fastify();
  await app.register(underPressure, {
    maxEventLoopDelay: 5 * cpuMs,
    maxEventLoopUtilization: 0.98,
    sampleInterval: 100,
    retryAfter: 1,
  });
  addRoutes(app, async () => spin(settings.iterations));
  addCallRoutes(app, settings);
  return await listen(app);
}
