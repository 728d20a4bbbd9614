import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable, stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { demandListenable, listenFault, makeDatabaseFolder } from 'spillway-cli';

/** The error of a real server that listens at such an address. */
async function refusal(host: string, port: number): Promise<unknown> {
  const [error] = await once(createServer().listen(port, host), 'error').catch((cause) => [cause]);
  return error;
}

const told = (error: unknown) => (error as Error).message;

describe('a fault of listening', () => {
  it('names the flag of the port that is taken, also as the cause of another', async () => {
    await using server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const error = await refusal('127.0.0.1', port);
    const taken = `port: 127.0.0.1:${port} is in use; choose another with`;
    const host = '127.0.0.1';
    assert.equal(told(listenFault(error, { host, ports: { '--port': port } })), `${taken} --port`);
    const wrapped = new Error('it did not start', { cause: error });
    const ports = { '--port': 1, '--other-port': port };
    const fault = listenFault(wrapped, { host, ports }) as Error;
    assert.equal(fault.message, `${taken} --other-port`);
    assert.equal(fault.cause, wrapped);
    await assert.rejects(demandListenable({ host, ports: { '--other-port': port } }), {
      message: `${taken} --other-port`,
    });
    await demandListenable({ host, ports: { '--port': 0 } });
  });

  it('names the flag of a host that is not of this machine', async () => {
    const error = await refusal('192.0.2.1', 0);
    const fault = listenFault(error, { host: '192.0.2.1', ports: { '--port': 0 } });
    assert.equal(told(fault), 'host: 192.0.2.1 is no address of this machine; see --host');
  });

  it('is nothing else', () => {
    const other = new Error('other');
    assert.equal(listenFault(other, { host: 'x', ports: { '--port': 1 } }), other);
    assert.equal(listenFault(undefined, { host: 'x', ports: { '--port': 1 } }), undefined);
  });
});

describe('the folder of a database', () => {
  it('is made for a file, and closed to others; a server has none', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'cli-data-'));
    const path = join(folder.path, 'a', 'b');
    await makeDatabaseFolder(`sqlite:${join(path, 'shop.db')}`);
    assert.equal((await stat(path)).mode & 0o777, 0o700);
    await makeDatabaseFolder('postgres://host/db');
  });
});
