import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { openModel } from './model.ts';

/** The obvious server: one model on the event loop, or a pool. */
const [kind = 'loop'] = process.argv.slice(2);
const workers = Math.max(1, Math.min(4, availableParallelism() - 1));

async function open(): Promise<(text: string) => Promise<unknown>> {
  if (kind === 'loop') return openModel();
  const pool = new Piscina({
    filename: fileURLToPath(import.meta.resolve('./piscina-embed.ts')),
    ...{ minThreads: workers, maxThreads: workers, idleTimeout: Number.POSITIVE_INFINITY },
  });
  await pool.run('warm', { name: 'embed' });
  return (text) => pool.run(text, { name: 'embed' });
}

const embed = await open();

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const { text } = JSON.parse(Buffer.concat(parts).toString()) as { text: string };
  await embed(text);
  response.setHeader('content-type', 'application/json').end('{"rank":5.5}');
}

const server = createServer((request, response) => void answer(request, response));
server.listen(0, '127.0.0.1');
await once(server, 'listening');

process.on('message', (order: { readonly do: string }) => {
  const { user, system } = process.cpuUsage();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const usage = { cpuUs: user + system, rssBytes: process.memoryUsage.rss() };
  process.send?.({ answer: order.do === 'serve' ? { url, key: '' } : usage });
});
process.once('disconnect', () => process.exit());
