import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  RouteShorthandOptions,
} from 'fastify';
import { type Clock, systemClock } from 'spillway';
import { check, clockRule, integer, or, type Settled, settle } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type NewestStream, NewestStreams } from '../base/newest-stream.ts';
import { plugin } from '../base/plugin.ts';
import { browserFile, sendFile } from './browser-file.ts';
import { type Html, html, Raw } from './html.ts';
import { LiveView, type Observable, type Render } from './live-view.ts';

export interface LivePageOptions {
  /** States that the view shows: it is rendered again when one of them changes. */
  readonly states: readonly Observable[];
  /** Key of the view: requests with the same key see the same. @default one view for all */
  readonly key?: ((request: FastifyRequest) => string) | undefined;
  /** Renders the view from the states and the key alone; it must not wait. */
  readonly view: (key: string) => Html;
  /** Makes the page around the view for one request; the reply has tokens and headers. */
  readonly page: (view: Html, request: FastifyRequest, reply: FastifyReply) => Html | Promise<Html>;
  /** Hooks, schema and config of the page's route and of the route of its changes. */
  readonly route?: RouteShorthandOptions | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Adds a page that changes in the browser with its states, and is plain without script. */
    livePage(path: string, options: LivePageOptions): void;
    liveStats(): LiveStats;
  }
}

/** Folder of the changes below each page, and of the scripts below the root. */
const below = '_live';
const scripts = ['live-client.js', 'live-dom.js'] as const;

/** Lets an instance have live pages: `app.livePage(path, options)`. It needs the plugin `pages`. */
export const live: FastifyPluginAsync<LiveOptions> = plugin(
  'live',
  async (app, options) => {
    const views = new LiveViews(options, (error) => app.log.error(error));
    for (const name of scripts) {
      const file = browserFile(name);
      // Browsers must ask for it again, so that versions are never mixed.
      app.get(`/${below}/${name}`, (_request, reply) => sendFile(reply, file, 'no-cache'));
    }
    const scriptUrl = `${app.prefix}/${below}/${scripts[0]}`;
    app.decorate('liveStats', () => views.stats);
    app.decorate('livePage', function livePage(this: FastifyInstance, path, page) {
      addPage(this, path, page, views, scriptUrl);
    });
    app.addHook('preClose', async () => views.close());
  },
  ['spillway-pages'],
);

function addPage(
  app: FastifyInstance,
  path: string,
  options: LivePageOptions,
  views: LiveViews,
  scriptUrl: string,
): void {
  const { states, key = () => '', view, page, route = {} } = options;
  check(!path.includes('*'), 'path', 'without a wildcard', path);
  const viewOf = (request: FastifyRequest): [string, LiveSource] => {
    const own = key(request);
    return [`${app.prefix}${path} ${own}`, { states, render: () => view(own) }];
  };
  app.get(path, route, async (request, reply) => {
    const { version, text } = views.render(...viewOf(request));
    // The text is not a part of this template, so that its marks are the region's own.
    const region = html`<div data-live-url="${changesUrl(pathOf(request.url))}"
 data-live-version="${version}">${new Raw(text)}</div>
<script type="module" src="${scriptUrl}"></script>`;
    return await page(region, request, reply);
  });
  const config = { ...route.config, domain: 'stream' as const };
  const changes = { ...route, config, exposeHeadRoute: false };
  app.get(changesUrl(path), changes, (request, reply) => {
    const base = String(request.headers['last-event-id'] ?? '');
    const listener = views.listen(...viewOf(request), base);
    // Only opening is work for the lane; from here on the limits of live pages count.
    if ('permit' in request) (request.permit as Disposable | null)?.[Symbol.dispose]();
    void reply.headers({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    return reply.send(listener);
  });
}

/** The path and query of a request, as an address that cannot lead to another host. */
function pathOf(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?]*/i, '').replace(/^\/\//, '/.//');
}

/** The address of a page's changes. */
function changesUrl(url: string): string {
  return url.replace(/\/?(\?|$)/, `/${below}$1`);
}

export interface LiveOptions {
  /** Browsers that may listen in all; one more is refused. An integer from 1. @default 10_000 */
  readonly listenersMax?: number | undefined;
  /** Views (a page and a key) that are remembered. An integer from 1. @default 1_000 */
  readonly viewsMax?: number | undefined;
  /** Versions of a view that are remembered. An integer from 1. @default 8 */
  readonly rendersMax?: number | undefined;
  /**
   * Text of all versions together, in characters; the newest one of a view that is listened to is
   * kept anyway. An integer from 0. @default 32_000_000
   */
  readonly lengthMax?: number | undefined;
  /** Shortest time between two changes of a view, in ms. An integer from 0. @default 50 */
  readonly intervalMs?: number | undefined;
  /** Milliseconds between heartbeats. An integer, 1,000 to 20,000. @default 15_000 */
  readonly keepAliveMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface LiveStats {
  readonly kind: 'live';
  readonly listeners: number;
  readonly views: number;
  /** Characters of all versions that are remembered. */
  readonly length: number;
}

interface LiveSource {
  readonly states: readonly Observable[];
  readonly render: () => Html;
}

const rules = {
  listenersMax: or(integer(1), 10_000),
  viewsMax: or(integer(1), 1_000),
  rendersMax: or(integer(1), 8),
  lengthMax: or(integer(0), 32_000_000),
  intervalMs: or(integer(0), 50),
  keepAliveMs: or(integer(1_000, 20_000), 15_000),
  clock: or(clockRule, systemClock),
};

/** All views of an instance and the browsers that listen to them, within bounds. */
class LiveViews {
  readonly #limits: Settled<LiveOptions, typeof rules>;
  readonly #onFailed: (error: unknown) => void;
  /** Views by name, the least recently used first. */
  readonly #views = new Map<string, LiveView>();
  readonly #listeners: NewestStreams;
  #length = 0;

  constructor(options: LiveOptions, onFailed: (error: unknown) => void) {
    this.#limits = settle('live', options, rules);
    const { clock, keepAliveMs } = this.#limits;
    this.#listeners = new NewestStreams({ clock, beatMs: keepAliveMs, missedMax: 2 });
    this.#onFailed = onFailed;
  }

  get stats(): LiveStats {
    return {
      kind: 'live',
      listeners: this.#listeners.size,
      views: this.#views.size,
      length: this.#length,
    };
  }

  /** Gives the newest version of a view, which is remembered while there is room. */
  render(name: string, source: LiveSource): Render {
    const newest = this.#open(name, source).render();
    this.#trim();
    return newest;
  }

  /** Opens the stream of changes of a view since a version, to be sent to a browser. */
  listen(name: string, source: LiveSource, version: string): NewestStream {
    const { listenersMax, viewsMax } = this.#limits;
    if (this.#listeners.size >= listenersMax) throw full(`${listenersMax} browsers listen`);
    const others = this.#views.get(name)?.listeners.size ?? 0;
    if (others === 0 && this.#watched() >= viewsMax) throw full(`${viewsMax} are listened to`);
    const view = this.#open(name, source);
    let shown = version;
    const listener = this.#listeners.open(() => {
      const message = view.message(shown);
      shown = view.version;
      return message;
    });
    view.add(listener);
    listener.once('close', () => view.remove(listener));
    this.#trim();
    return listener;
  }

  /** Ends all streams; the browsers come back by themselves. */
  close(): void {
    this.#listeners.close();
  }

  #open(name: string, source: LiveSource): LiveView {
    const { rendersMax, intervalMs, clock } = this.#limits;
    const view =
      this.#views.get(name) ??
      new LiveView({
        ...source,
        rendersMax,
        intervalMs,
        clock,
        onKept: (length) => {
          this.#length += length;
        },
        onRefreshed: () => this.#trim(),
        onFailed: this.#onFailed,
      });
    view.render();
    this.#views.delete(name);
    this.#views.set(name, view);
    return view;
  }

  #watched(): number {
    return this.#views.values().reduce((sum, { listeners }) => sum + Math.sign(listeners.size), 0);
  }

  /** Forgets the least recently used views until all is within bounds; see {@link LiveOptions}. */
  #trim(): void {
    const { viewsMax, lengthMax } = this.#limits;
    for (const [name, view] of this.#views) {
      const isLong = this.#length > lengthMax;
      if (!isLong && this.#views.size <= viewsMax) return;
      const isIdle = view.listeners.size === 0;
      if (isLong || isIdle) view.forget(isIdle);
      if (isIdle) this.#views.delete(name);
    }
  }
}

function full(why: string): Error {
  return httpError('LIVE_FULL', `no more live pages: ${why}`, { retryAfterMs: 5_000 });
}
