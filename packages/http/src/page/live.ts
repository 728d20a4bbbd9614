import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  RouteShorthandOptions,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { check } from 'spillway/internal';
import { type Html, html, Raw } from './html.ts';
import type { Observable } from './live-view.ts';
import { type LiveOptions, type LiveSource, type LiveStats, LiveViews } from './live-views.ts';

export interface LivePageOptions {
  /** What the view shows: it is rendered anew when one of them changes. */
  readonly states: readonly Observable[];
  /** Whose view it is: requests with the same key see the same. @default one view for all */
  readonly key?: ((request: FastifyRequest) => string) | undefined;
  /** What is shown, found from the states and the key alone; it must not wait. */
  readonly view: (key: string) => Html;
  /** The page around the view, for one request; the reply gives it tokens and headers. */
  readonly page: (view: Html, request: FastifyRequest, reply: FastifyReply) => Html | Promise<Html>;
  /** Hooks, schema and config of the page's route and of the route of its changes. */
  readonly route?: RouteShorthandOptions | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** A page that changes in the browser when what it shows does, and is plain without script. */
    livePage(path: string, options: LivePageOptions): void;
    liveStats(): LiveStats;
  }
}

/** The changes of a page are found below it, and the scripts below the root. */
const below = '_live';
const [script, ...otherScripts] = ['live-client.js', 'live-dom.js'] as const;

/** Lets an instance have live pages: `app.livePage(path, options)`. It needs the plugin `pages`. */
export const live: FastifyPluginAsync<LiveOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: LiveOptions) => {
    const views = new LiveViews(options, (error) => app.log.error(error));
    for (const name of [script, ...otherScripts]) await addScript(app, name);
    const scriptUrl = `${app.prefix}/${below}/${script}`;
    app.decorate('liveStats', () => views.stats);
    app.decorate('livePage', function livePage(this: FastifyInstance, path, page) {
      addPage(this, path, page, views, scriptUrl);
    });
    app.addHook('preClose', async () => views.close());
  },
  { name: 'spillway-live', fastify: '5.x', dependencies: ['spillway-pages'] },
);

/** Browsers ask each time whether it is still the same, so a new one is never mixed with an old. */
async function addScript(app: FastifyInstance, name: string): Promise<void> {
  const text = await readFile(new URL(`./browser/${name}`, import.meta.url), 'utf8');
  const etag = `"${hash('sha256', text, 'base64url').slice(0, 16)}"`;
  app.get(`/${below}/${name}`, (request, reply) => {
    void reply.headers({ etag, 'cache-control': 'no-cache' });
    if (request.headers['if-none-match'] === etag) return reply.code(304).send();
    return reply.type('text/javascript; charset=utf-8').send(text);
  });
}

function addPage(
  app: FastifyInstance,
  path: string,
  options: LivePageOptions,
  views: LiveViews,
  scriptUrl: string,
): void {
  const { states, key = () => '', view, page, route = {} } = options;
  check(!path.includes('*'), 'path', 'without a wildcard', path);
  const wanted = (request: FastifyRequest): [string, LiveSource] => {
    const own = key(request);
    return [`${app.prefix}${path} ${own}`, { states, render: () => view(own) }];
  };
  app.get(path, route, async (request, reply) => {
    const { version, text } = views.render(...wanted(request));
    // Beside its element, so that the marks in the text are the region's own.
    const region = html`<div data-live-url="${changesUrl(request.url)}"
 data-live-version="${version}">${new Raw(text)}</div>
<script type="module" src="${scriptUrl}"></script>`;
    return await page(region, request, reply);
  });
  const config = { ...route.config, domain: 'stream' as const };
  const changes = { ...route, config, exposeHeadRoute: false };
  app.get(changesUrl(path), changes, (request, reply) => {
    const base = String(request.headers['last-event-id'] ?? '');
    const listener = views.listen(...wanted(request), base);
    // Only its opening is work; from here on it lives within the limits of live pages.
    if ('permit' in request) (request.permit as Disposable | null)?.[Symbol.dispose]();
    void reply.headers({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    return reply.send(listener);
  });
}

function changesUrl(url: string): string {
  return url.replace(/\/?(\?|$)/, `/${below}$1`);
}
