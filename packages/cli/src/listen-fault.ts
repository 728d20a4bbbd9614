/** Where a program was to listen. */
export interface ListenAddress {
  readonly host: string;
  /** Each port by the flag that sets it. */
  readonly ports: Readonly<Record<string, number>>;
}

/** Says what to do about an address that cannot be listened at; any other error stays as it is. */
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
