// Slow: opens thousands of connections.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { it } from 'node:test';
import { Gate, Lane } from 'spillway';

it('begins nothing new while connections wait behind work that computes', async () => {
  const clients = 40;
  const lane = new Lane({
    name: 'sums',
    limit: { fixed: clients },
    queueMax: 0,
    deadlineMs: 60_000,
  });
  const acceptedAt: number[] = [];
  let accepted = 0;
  const all = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    accepted += 1;
    void lane.run(async () => {
      acceptedAt.push(accepted);
      const endAt = performance.now() + 4;
      while (performance.now() < endAt);
      socket.destroy();
      if (acceptedAt.length === clients) all.resolve();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets = Array.from({ length: clients }, () => connect(port, '127.0.0.1'));
  await all.promise;
  for (const socket of sockets) socket.destroy();
  server.close();
  // The first ones begin before anybody can know that more connections wait.
  assert.ok(Number(acceptedAt[8]) > 12, `accepted when each began: ${acceptedAt}`);
});

it('accepts all connections before more work begins that is known to compute', async () => {
  const clients = 400;
  const lane = new Lane({
    name: 'sums',
    limit: { fixed: 1 },
    queueMax: clients,
    deadlineMs: 60_000,
  });
  const acceptedAt: number[] = [];
  let accepted = 0;
  const enough = Promise.withResolvers<void>();
  const server = createServer(async () => {
    accepted += 1;
    using permit = await lane.enter();
    acceptedAt.push(accepted);
    const endAt = performance.now() + 4;
    while (performance.now() < endAt);
    permit.loopMs = 4;
    if (acceptedAt.length === 16) enough.resolve();
  });
  await once(server.listen({ port: 0, host: '127.0.0.1', backlog: clients }), 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets = Array.from({ length: clients }, () => connect(port, '127.0.0.1'));
  await enough.promise;
  for (const socket of sockets) socket.destroy();
  server.close();
  // With some turns for each, not half of them would have been accepted.
  assert.ok(Number(acceptedAt[15]) > 0.9 * clients, `accepted when each began: ${acceptedAt}`);
});

it('keeps nobody waiting behind connections whose work no lane holds back', async () => {
  const clients = 60;
  let accepted = 0;
  const all = Promise.withResolvers<void>();
  const cpuMs = () => process.threadCpuUsage().user / 1_000;
  const server = createServer((socket) => {
    const endAt = cpuMs() + 5;
    while (cpuMs() < endAt);
    socket.destroy();
    accepted += 1;
    if (accepted === clients) all.resolve();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets = Array.from({ length: clients }, () => connect(port, '127.0.0.1'));
  const gate = new Gate({ limit: 1, queueMax: 1 });
  let longest = 0;
  while (accepted < clients) {
    const before = accepted;
    await gate.run(() => new Promise<void>((resolve) => setImmediate(resolve)));
    longest = Math.max(longest, accepted - before);
  }
  await all.promise;
  for (const socket of sockets) socket.destroy();
  server.close();
  assert.ok(longest < 10, `one task waited for ${longest} connections`);
});
