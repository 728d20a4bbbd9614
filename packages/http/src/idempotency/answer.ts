import { pipeline, type Readable, Transform } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Headers of one answer, its connection or its client, which are not kept with the result. */
const notKept: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'set-cookie',
  'transfer-encoding',
  'x-request-id',
]);

/** The headers of an answer that are kept and sent again. */
export function keptHeaders(reply: FastifyReply): Record<string, string | readonly string[]> {
  const headers = Object.entries(reply.getHeaders()).filter(
    ([name]) => !notKept.has(name) && !name.startsWith('ratelimit-'),
  );
  return Object.fromEntries(
    headers.map(([name, value]) => [name, Array.isArray(value) ? value : String(value)]),
  );
}

/** The bytes of an answer, if it is no stream. */
export function wholeBody(payload: unknown): Buffer | undefined {
  if (payload === undefined || payload === null) return Buffer.alloc(0);
  if (typeof payload === 'string') return Buffer.from(payload);
  return Buffer.isBuffer(payload) ? payload : undefined;
}

/**
 * The same stream, at the pace of its reader. Before its end is passed on, `keep` is given all of
 * it, or undefined if it was longer than `bytesMax`; undefined also if it broke off.
 */
export function recorded(
  source: Readable,
  bytesMax: number,
  keep: (body: Buffer | undefined) => Promise<void>,
): Readable {
  let chunks: Buffer[] | undefined = [];
  let bytes = 0;
  let isKept = false;
  const keepOnce = async (): Promise<void> => {
    if (isKept) return;
    isKept = true;
    await keep(chunks && Buffer.concat(chunks));
  };
  const copy = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bytesMax) chunks = undefined;
      chunks?.push(chunk);
      done(null, chunk);
    },
    flush(done) {
      keepOnce().then(() => done(), done);
    },
  });
  return pipeline(source, copy, (error) => {
    if (!error) return;
    chunks = undefined;
    void keepOnce();
  });
}
