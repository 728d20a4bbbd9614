import { connect } from 'node:net';

/** The connection that a cancel request names. */
export interface CancelTarget {
  readonly host: string;
  readonly port: number;
  readonly processId: number;
  readonly secretKey: number;
}

const cancelRequestCode = 80_877_102;

/**
 * Asks the server to stop what a connection runs. The protocol gives no answer: the query fails,
 * or has ended already, or the request got lost and the server's own statement timeout ends it.
 * Resolves when the server has closed the request: until then it may hit whatever runs next.
 */
export function cancelQuery({ host, port, processId, secretKey }: CancelTarget): Promise<void> {
  const message = Buffer.alloc(16);
  for (const [at, word] of [16, cancelRequestCode, processId, secretKey].entries()) {
    message.writeInt32BE(word | 0, at * 4);
  }
  const socket = host.startsWith('/')
    ? connect({ path: `${host}/.s.PGSQL.${port}` })
    : connect({ host, port });
  // There is nobody to tell; not getting through is one of the three outcomes above.
  socket.on('error', () => {});
  socket.unref();
  socket.end(message);
  return new Promise((closed) => socket.once('close', () => closed()));
}
