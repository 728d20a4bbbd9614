import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { WebSocket } from 'ws';

/** One process of the service, with one client. */
class Instance implements AsyncDisposable {
  readonly heard: string[] = [];
  readonly #child: ChildProcess;
  #client: WebSocket | undefined;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(path: string): Promise<Instance> {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const fixture = join(import.meta.dirname, 'fixtures', 'hub-server.ts');
    const instance = new Instance(fork(fixture, [path], { env }));
    const [port] = await once(instance.#child, 'message');
    const client = new WebSocket(`ws://127.0.0.1:${port}/live`);
    instance.#client = client;
    client.on('message', (data) => instance.heard.push(String(data)));
    await instance.until(1);
    return instance;
  }

  /** Waits until so many messages have come. */
  async until(count: number): Promise<void> {
    while (this.heard.length < count) await once(this.#client as WebSocket, 'message');
  }

  async broadcast(text: string): Promise<{ readonly relay: Readonly<Record<string, number>> }> {
    const answer = once(this.#child, 'message');
    this.#child.send(text);
    return (await answer)[0];
  }

  /** Stops it as an operator would; the code with which the client was closed. */
  async stop(): Promise<number> {
    const closed = once(this.#client as WebSocket, 'close');
    const exit = once(this.#child, 'exit');
    this.#child.send('stop');
    assert.deepEqual(await exit, [0, null]);
    return (await closed)[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#client?.terminate();
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}

describe('two processes over one SQLite file', () => {
  it('carry broadcasts to the sockets of both', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-hub-'));
    const path = join(folder.path, 'shared.db');
    await using a = await Instance.start(path);
    await using b = await Instance.start(path);
    const texts = Array.from({ length: 40 }, (_, n) => `${n % 2 === 0 ? 'a' : 'b'}${n}`);
    for (const text of texts) await (text.startsWith('a') ? a : b).broadcast(text);
    await Promise.all([a.until(41), b.until(41)]);
    for (const { heard } of [a, b]) {
      assert.deepEqual([...heard].sort(), [...texts, 'welcome'].sort());
      for (const name of ['a', 'b']) {
        const own = (text: string) => text.startsWith(name);
        assert.deepEqual(heard.filter(own), texts.filter(own), 'one instance keeps its order');
      }
    }
    const { relay } = await a.broadcast('last');
    assert.deepEqual(relay, { published: 21, failed: 0, received: 20, lost: 0 });
    await b.until(42);
    assert.equal(await a.stop(), 1001);
    const alone = await b.broadcast('alone');
    assert.equal(alone.relay.failed, 0);
    await b.until(43);
    assert.equal(await b.stop(), 1001);
  });
});
