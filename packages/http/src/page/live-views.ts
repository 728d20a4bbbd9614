import { type Clock, systemClock } from 'spillway';
import { checkInteger } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import type { Html } from './html.ts';
import { LiveListener } from './live-listener.ts';
import { LiveView, type Observable, type Render } from './live-view.ts';

export interface LiveOptions {
  /** How many browsers may listen in all; one more is refused. From 1; 10,000 by default. */
  readonly listenersMax?: number | undefined;
  /** How many of them to one view. From 1; as many as in all by default. */
  readonly viewListenersMax?: number | undefined;
  /** How many views (a page and a key) are remembered. From 1; 1,000 by default. */
  readonly viewsMax?: number | undefined;
  /** How many versions of a view are remembered, to tell what changed. From 1; 8 by default. */
  readonly rendersMax?: number | undefined;
  /**
   * How long the text of all versions together may be, in characters; the newest one of a view that
   * is listened to is kept anyway. 32 million by default.
   */
  readonly lengthMax?: number | undefined;
  /** The shortest time between two changes of one view, in ms; 50 by default. */
  readonly intervalMs?: number | undefined;
  /** How often a sign of life is sent, in ms, from 1,000 to 20,000; 15,000 by default. */
  readonly beatMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface LiveStats {
  readonly listeners: number;
  readonly views: number;
  /** The length of the text of all versions that are remembered. */
  readonly length: number;
}

/** What a view shows. */
export interface LiveSource {
  readonly states: readonly Observable[];
  readonly render: () => Html;
}

/** All views of an instance and all who listen to them, within bounds. */
export class LiveViews {
  readonly #limits: Required<{ [K in keyof LiveOptions]: NonNullable<LiveOptions[K]> }>;
  readonly #failed: (error: unknown) => void;
  /** By name; the one that was asked for last is the last. */
  readonly #views = new Map<string, LiveView>();
  readonly #listeners = new Set<LiveListener>();
  #length = 0;
  #timer: Disposable | undefined;

  constructor(options: LiveOptions, failed: (error: unknown) => void) {
    const { listenersMax = 10_000, viewListenersMax = listenersMax, viewsMax = 1_000 } = options;
    const { rendersMax = 8, lengthMax = 32_000_000, intervalMs = 50, beatMs = 15_000 } = options;
    const { clock = systemClock } = options;
    checkInteger('listenersMax', listenersMax, 1);
    checkInteger('viewListenersMax', viewListenersMax, 1);
    checkInteger('viewsMax', viewsMax, 1);
    checkInteger('rendersMax', rendersMax, 1);
    checkInteger('lengthMax', lengthMax, 0);
    checkInteger('intervalMs', intervalMs, 0);
    checkInteger('beatMs', beatMs, 1_000, 20_000);
    const counts = { listenersMax, viewListenersMax, viewsMax, rendersMax, lengthMax };
    this.#limits = { ...counts, intervalMs, beatMs, clock };
    this.#failed = failed;
  }

  get stats(): LiveStats {
    return { listeners: this.#listeners.size, views: this.#views.size, length: this.#length };
  }

  /** The newest version of the view of this name, which is remembered while there is room. */
  render(name: string, source: LiveSource): Render {
    const newest = this.#open(name, source).render();
    this.#trim();
    return newest;
  }

  /** A stream of what changes in a view since the version, to be sent to a browser. */
  listen(name: string, source: LiveSource, version: string): LiveListener {
    const { listenersMax, viewListenersMax, viewsMax } = this.#limits;
    if (this.#listeners.size >= listenersMax) throw full(`${listenersMax} browsers listen`);
    const others = this.#views.get(name)?.listeners.size ?? 0;
    if (others >= viewListenersMax) throw full(`${others} browsers listen to this one`);
    if (others === 0 && this.#watched() >= viewsMax) throw full(`${viewsMax} are listened to`);
    const view = this.#open(name, source);
    const listener = new LiveListener(view, version);
    this.#listeners.add(listener);
    view.add(listener);
    listener.once('close', () => {
      this.#listeners.delete(listener);
      view.remove(listener);
    });
    this.#trim();
    if (this.#timer === undefined) this.#beat();
    return listener;
  }

  /** Ends all streams; the browsers come back by themselves. */
  close(): void {
    this.#timer?.[Symbol.dispose]();
    for (const listener of this.#listeners) listener.end();
  }

  #open(name: string, source: LiveSource): LiveView {
    const { rendersMax, intervalMs, clock } = this.#limits;
    const kept = (length: number) => {
      this.#length += length;
    };
    const settings = { ...source, rendersMax, intervalMs, clock };
    const told = { kept, refreshed: () => this.#trim(), failed: this.#failed };
    const view = this.#views.get(name) ?? new LiveView({ ...settings, ...told });
    view.render();
    this.#views.delete(name);
    this.#views.set(name, view);
    return view;
  }

  #watched(): number {
    return this.#views.values().reduce((sum, { listeners }) => sum + Math.sign(listeners.size), 0);
  }

  /** Forgets what was not asked for the longest, until all is within bounds. */
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

  #beat(): void {
    this.#timer = this.#limits.clock.after(this.#limits.beatMs, () => {
      for (const listener of this.#listeners) listener.beat();
      this.#timer = undefined;
      if (this.#listeners.size > 0) this.#beat();
    });
  }
}

function full(why: string): Error {
  return httpError('LIVE_FULL', `no more live pages: ${why}`, { retryAfterMs: 5_000 });
}
