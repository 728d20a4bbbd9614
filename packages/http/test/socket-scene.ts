import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type FastifyInstance, fastify } from 'fastify';
import { type SocketRoute, WebSocketHub, type WebSocketHubOptions } from 'spillway-http';
import { WebSocket } from 'ws';

/** A server with one hub and one route; everything is closed when it is disposed. */
export class Scene implements AsyncDisposable {
  readonly app: FastifyInstance = fastify();
  readonly hub: WebSocketHub;
  readonly #clients: WebSocket[] = [];

  private constructor(options: WebSocketHubOptions) {
    this.hub = new WebSocketHub(options);
  }

  static async open(options: WebSocketHubOptions, route: SocketRoute<unknown>): Promise<Scene> {
    const scene = new Scene(options);
    await scene.app.register(scene.hub.plugin);
    scene.hub.route(scene.app, '/live', route);
    scene.app.get('/page', async () => 'page');
    await scene.app.listen({ port: 0, host: '127.0.0.1' });
    return scene;
  }

  get port(): number {
    return (this.app.server.address() as AddressInfo).port;
  }

  /** A client, not connected yet. */
  client(headers: Record<string, string> = {}, path = '/live'): WebSocket {
    const client = new WebSocket(`ws://127.0.0.1:${this.port}${path}`, { headers });
    client.on('error', () => {});
    this.#clients.push(client);
    return client;
  }

  async connect(headers: Record<string, string> = {}): Promise<WebSocket> {
    const client = this.client(headers);
    await once(client, 'open');
    return client;
  }

  /** The status and the body with which an upgrade is refused. */
  async refusal(headers: Record<string, string> = {}, path = '/live'): Promise<[number, string]> {
    const [request, response] = await once(this.client(headers, path), 'unexpected-response');
    const body = (await response.toArray()).join('');
    request.destroy();
    return [response.statusCode, JSON.parse(body).code];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.terminate();
    await this.app.close();
  }
}

/** Gives a promise for the next call, and the function to be called. */
export function awaited<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
} {
  return Promise.withResolvers<T>();
}

export async function closeCode(client: WebSocket): Promise<number> {
  return (await once(client, 'close'))[0];
}

export async function nextText(client: WebSocket): Promise<string> {
  return String((await once(client, 'message'))[0]);
}

/** Calls until it is so; each time the event loop has turned. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until a number has not changed for a thousand turns of the event loop. */
export async function settled(read: () => number): Promise<void> {
  let turns = 0;
  let last = read();
  await until(() => {
    turns = last === read() ? turns + 1 : 0;
    last = read();
    return turns > 1_000;
  });
}
