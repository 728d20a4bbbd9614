import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { metrics, Panel, Pool, Service } from 'spillway';
import { admitted, Listener } from 'spillway/connect';
import { type FetchPage, Words } from './words.ts';

export interface ServiceSettings {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** The site whose pages are read. */
  readonly upstream: URL;
}

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** Opens the parts of the service and puts them together. */
export async function openService({ host, port, upstream }: ServiceSettings): Promise<{
  readonly service: Service;
  readonly listener: Listener;
}> {
  const pool = await Pool.open<typeof import('./worker.ts')>({
    module: new URL('./worker.ts', import.meta.url),
    workers: 2,
    queueMax: 200,
    deadlineMs: 2_000,
  });
  const fetchPage: FetchPage = async (name, signal) => {
    // The dot keeps a name such as //other.example/ from choosing another site.
    const answer = await fetch(new URL(`./${name}`, upstream), { signal });
    return { status: answer.status, text: await answer.text() };
  };
  const count = (text: string, options: { readonly signal: AbortSignal }) =>
    pool.run('count', text, options);
  const words = new Words({ fetchPage, count });
  const panel = new Panel();
  panel.watch('words', words.lane);
  panel.watch('pages', words.pages);
  panel.watch('pool', pool);

  const countWords: Handler = admitted(words.lane, async (req, res, signal) => {
    const name = pathOf(req).slice('/words/'.length);
    answer(res, 200, { words: await words.of(name, signal) });
  });
  const server = createServer((req, res) => {
    const path = pathOf(req);
    if (path.startsWith('/words/')) countWords(req, res);
    else if (path === '/ready') answer(res, service.ready ? 200 : 503, { ready: service.ready });
    else if (path === '/metrics') res.end(metrics(panel));
    else answer(res, 404, { ok: false, error: { code: 'NOT_FOUND', message: `no ${path}` } });
  });
  const listener = new Listener(server, { host, port });
  // Parts start in this order and close in reverse: the listener first, the pool last.
  const service = new Service({ parts: [pool, words.lane, listener] });
  return { service, listener };
}

function pathOf(req: IncomingMessage): string {
  return (req.url ?? '/').split('?')[0] as string;
}

function answer(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' });
  res.end(JSON.stringify(body));
}
