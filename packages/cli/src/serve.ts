import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, resolve } from 'node:path';
import type { Service } from 'spillway';
import { onceAborted, StopSignal } from 'spillway/internal';
import { exitCodes } from './program.ts';

/** Makes a folder and those above it; only their owner may look into them. */
export async function makeFolder(path: string): Promise<void> {
  const folder = resolve(path);
  // One by one: Node's `recursive` never ends where nobody may make a folder, as below /proc.
  if (!existsSync(dirname(folder))) await makeFolder(dirname(folder));
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST' || !statSync(folder).isDirectory()) throw error;
  });
}

/** Makes the folder that a SQLite file will lie in; only its owner may look into it. */
export async function makeDatabaseFolder(database: string): Promise<void> {
  const path = /^sqlite:(.+)$/s.exec(database)?.[1];
  if (path !== undefined) await makeFolder(dirname(resolve(path)));
}

/** The address that a program listens at. */
export interface ListenAddress {
  readonly host: string;
  /** Each port by the flag that sets it. */
  readonly ports: Readonly<Record<string, number>>;
}

/** Adds a remedy to the error of an address that cannot be used; any other stays as it is. */
export function listenFault(error: unknown, { host, ports }: ListenAddress): unknown {
  const cause = Object(Object(error).cause ?? error) as NodeJS.ErrnoException & { port?: number };
  if (cause.code === 'EADDRINUSE') {
    const all = Object.entries(ports);
    const [flag, port] = all.find(([, each]) => each === cause.port) ?? all[0] ?? ['--port'];
    const taken = `${host}:${cause.port ?? port}`;
    return new Error(`port: ${taken} is in use; choose another with ${flag}`, { cause: error });
  }
  if (cause.code === 'EADDRNOTAVAIL') {
    const message = `host: ${host} is no address of this machine; see --host`;
    return new Error(message, { cause: error });
  }
  return error;
}

/** Throws what {@link listenFault} says, before a server has made any file. */
export async function demandListenable(address: ListenAddress): Promise<void> {
  for (const port of Object.values(address.ports)) {
    const server = createServer();
    try {
      await once(server.listen(port, address.host), 'listening');
    } catch (error) {
      throw listenFault(error, address);
    }
    await once(server.close(), 'close');
  }
}

/** Stops a service at a stop signal. Make it first, so that a signal during the start counts. */
export class ServiceStop {
  readonly #stop = new StopSignal({
    first: 'what has begun is finished first',
    left: () => `Not stopped: ${left(this.#service)}`,
  });
  #service: Service | undefined;

  /** Aborts when this process is told to stop. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Serves until it is asked to stop; gives the exit code. */
  async stop(service: Service): Promise<number> {
    this.#service = service;
    await onceAborted(this.signal);
    try {
      await service.close();
      process.stderr.write('Stopped; nothing was left.\n');
      return exitCodes.ok;
    } catch (error) {
      process.stderr.write(`${(error as Error).message}\n`);
      return exitCodes.failed;
    }
  }
}

function left(service: Service | undefined): string {
  const parts = service?.stats.parts ?? [];
  const names = parts.filter(({ state }) => state !== 'closed' && state !== 'new');
  return names.map(({ name }) => name).join(', ') || 'nothing';
}
