import { mkdir, mkdtempDisposable, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FastifyInstance, fastify } from 'fastify';
import { assets, download, fileDownload } from 'spillway-http';

/** The answer to a raw request. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A folder of files, with secrets around it, served in both ways. */
export class FileScene implements AsyncDisposable {
  readonly app: FastifyInstance = fastify();
  readonly folder: string;
  readonly #resources: AsyncDisposableStack;

  private constructor(folder: string, resources: AsyncDisposableStack) {
    this.folder = folder;
    this.#resources = resources;
  }

  static async open(): Promise<FileScene> {
    const resources = new AsyncDisposableStack();
    const { path } = resources.use(await mkdtempDisposable(join(tmpdir(), 'spillway-files-')));
    const root = join(path, 'public');
    await mkdir(join(root, 'sub'), { recursive: true });
    await mkdir(join(root, '.git'));
    await mkdir(join(path, 'public-not'));
    await writeFile(join(root, 'a.txt'), '0123456789');
    await writeFile(join(root, 'empty.txt'), '');
    await writeFile(join(root, 'sub', 'b c.txt'), 'b');
    await writeFile(join(root, 'app.3f2a9c1b.js'), 'export {};');
    await writeFile(join(root, 'report-20260101.txt'), 'report');
    const secrets = ['.env', '.git/config', 'sub/.hidden'].map((name) => join(root, name));
    secrets.push(join(path, 'secret.txt'), join(path, 'public-not', 'secret.txt'));
    for (const secret of secrets) await writeFile(secret, 'secret');
    await symlink(join(path, 'secret.txt'), join(root, 'link.txt'));
    await symlink(path, join(root, 'out'));
    await symlink(join(root, '.env'), join(root, 'env.txt'));
    await symlink(join(root, 'a.txt'), join(root, 'same.txt'));
    const scene = new FileScene(root, resources);
    await scene.app.register(assets, { root });
    scene.app.get('/files/*', async (request, reply) => {
      const { '*': name } = request.params as { '*': string };
      return download(reply, await fileDownload(root, name));
    });
    return scene;
  }

  async listen(): Promise<number> {
    await this.app.listen({ port: 0, host: '127.0.0.1' });
    return (this.app.server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.app.close();
    await this.#resources.disposeAsync();
  }
}

/** Sends exactly this path, as no well-behaved client would. */
export async function ask(port: number, path: string, ...headers: string[]): Promise<Answer> {
  const socket = connect(port, '127.0.0.1');
  const lines = [`GET ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', ...headers];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  const text = Buffer.concat(await socket.toArray()).toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  const [first = '', ...fields] = text.slice(0, end).split('\r\n');
  const pairs = fields.map((field) => {
    const colon = field.indexOf(':');
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()] as const;
  });
  const status = Number(first.split(' ')[1]);
  return { status, headers: Object.fromEntries(pairs), body: text.slice(end + 4) };
}
