/** Says what to do about an address that cannot be listened at. */
export function listenFault(
  error: unknown,
  { host, port }: { readonly host: string; readonly port: number },
): unknown {
  const { code } = Object(Object(error).cause ?? error) as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    return new Error(`port: ${host}:${port} is in use; choose another with --port`, {
      cause: error,
    });
  }
  if (code === 'EADDRNOTAVAIL') {
    const message = `host: ${host} is no address of this machine; see --host`;
    return new Error(message, { cause: error });
  }
  return error;
}
