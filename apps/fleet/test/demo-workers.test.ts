import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { freePort } from 'spillway-fixtures/free-port';
import { fleetFile, ServedFleet } from './fixtures/fleet-command.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

/** Workers that play until the end of the stack; rejects if the command ends before. */
async function demo(data: string, stack: AsyncDisposableStack) {
  const child = spawn(process.execPath, [fleetFile, 'demo-workers', '--count', '3'], {
    env: { ...process.env, FLEET_DATA: data },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  const ended = once(child, 'close').then(([code]) => ({ code, complaints }));
  stack.defer(async () => {
    child.kill();
    await ended;
  });
  await Promise.race([once(createInterface(child.stdout), 'line'), ended]);
  const failed = ended.then(() => assert.fail(complaints));
  failed.catch(() => {});
  return { child, ended, failed };
}

/** Asks until a demo run has so many workers. */
async function played(server: ServedFleet, workers: number): Promise<void> {
  for (;;) {
    const { value = [] } = await server.ask('run-list', {});
    if (value.some((run: { readonly workers: number }) => run.workers === workers)) return;
  }
}

/** Takes the place of a server that is gone, and hangs up until so many calls have come. */
async function hangUp(port: number, calls: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  for (let at = 0; at < calls; at += 1) {
    const [socket] = (await once(server, 'connection')) as [Socket];
    socket.destroy();
  }
  server.close();
  await once(server, 'close');
}

describe('fleet demo-workers', { timeout: 240_000 }, () => {
  it('goes on when the server was killed and started again', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const port = await freePort();
    const words = ['--port', String(port)];
    const first = stack.use(await ServedFleet.start(data, words));
    const { child, failed } = await demo(data, stack);
    await Promise.race([played(first, 3), failed]);
    await first.stop('SIGKILL');
    await Promise.race([hangUp(port, 9), failed]);
    const second = stack.use(await ServedFleet.start(data, words));
    await Promise.race([played(second, 3), failed]);
    assert.equal(child.exitCode, null);
  });

  it('says so when more of them take its account', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    stack.use(await ServedFleet.start(data));
    const { ended } = await demo(data, stack);
    await demo(data, stack);
    const { code, complaints } = await ended;
    assert.equal(code, 1);
    assert.match(complaints, /the password of demoworkers was changed/);
  });
});
