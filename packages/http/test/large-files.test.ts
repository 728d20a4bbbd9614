// Slow: sends files of many megabytes.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { open, readdir, readlink, stat } from 'node:fs/promises';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fastify } from 'fastify';
import { receive, uploads } from 'spillway-http';
import { FileScene } from './file-scene.ts';

function request(port: number, path: string): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return socket;
}

/** Descriptors of this process that are open for the file. */
async function openFor(path: string): Promise<number> {
  const names = await readdir('/proc/self/fd');
  const links = names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => ''));
  return (await Promise.all(links)).filter((link) => link === path).length;
}

describe('a large file', () => {
  it('of 2 GB is sent in constant memory', { timeout: 250_000 }, async (t) => {
    await using scene = await FileScene.open();
    const path = join(scene.folder, 'large.bin');
    const size = 2 ** 31;
    await using file = await open(path, 'w');
    await file.truncate(size);
    const port = await scene.listen();
    const startedAt = performance.now();
    const before = process.memoryUsage.rss();
    let highest = before;
    let bytes = 0;
    let chunks = 0;
    const done = Promise.withResolvers<void>();
    const socket = request(port, '/files/large.bin');
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      chunks += 1;
      if (chunks % 256 === 0) highest = Math.max(highest, process.memoryUsage.rss());
      if (bytes > size + 100) done.resolve();
    });
    await done.promise;
    socket.destroy();
    const grown = (highest - before) / 2 ** 20;
    t.diagnostic(`${Math.round(performance.now() - startedAt)} ms, ${grown.toFixed()} MB more`);
    assert.ok(grown < 128, `${grown} MB`);
  });

  it('of 512 MB is received in constant memory', { timeout: 250_000 }, async (t) => {
    await using scene = await FileScene.open();
    const path = join(scene.folder, 'upload.bin');
    const size = 2 ** 29;
    const app = fastify();
    await app.register(uploads);
    app.put('/upload', (request) => receive(request, path, { bytesMax: size }));
    await app.listen({ port: 0, host: '127.0.0.1' });
    const startedAt = performance.now();
    const before = process.memoryUsage.rss();
    let highest = before;
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
    const head = `PUT /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${size}\r\n\r\n`;
    socket.write(head);
    const hash = createHash('sha256');
    const chunk = Buffer.alloc(2 ** 20, 'spillway');
    for (let sent = 0; sent < size; sent += chunk.length) {
      hash.update(chunk);
      if (!socket.write(chunk)) await once(socket, 'drain');
      highest = Math.max(highest, process.memoryUsage.rss());
    }
    const [answer] = await once(socket, 'data');
    assert.match(String(answer), /^HTTP\/1.1 200/);
    assert.ok(String(answer).includes(hash.digest('hex')), String(answer));
    assert.equal((await stat(path)).size, size);
    const grown = (highest - before) / 2 ** 20;
    t.diagnostic(`${Math.round(performance.now() - startedAt)} ms, ${grown.toFixed()} MB more`);
    assert.ok(grown < 128, `${grown} MB`);
    await app.close();
  });

  it('is closed when the client has gone in the middle', async () => {
    await using scene = await FileScene.open();
    const path = join(scene.folder, 'large.bin');
    await using file = await open(path, 'w');
    await file.truncate(2 ** 31);
    const port = await scene.listen();
    assert.equal(await openFor(path), 1);
    const sockets = Array.from({ length: 20 }, (_, n) => {
      return request(port, n % 2 === 0 ? '/files/large.bin' : '/assets/large.bin');
    });
    await Promise.all(sockets.map((socket) => once(socket, 'data')));
    assert.equal(await openFor(path), 21);
    for (const socket of sockets) socket.destroy();
    while ((await openFor(path)) > 1) await new Promise((resolve) => setImmediate(resolve));
  });
});
