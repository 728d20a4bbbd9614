import { hash } from 'node:crypto';
import type { Clock } from 'spillway';
import type { NewestStream } from '../base/newest-stream.ts';
import { Sweep } from '../base/sweep.ts';
import type { Html } from './html.ts';
import { liveText, patch } from './patch.ts';

/** A value that a live page shows and that says when it changed, such as a `State`. */
export interface Observable {
  /** Number that differs after each change. */
  readonly version: number;
  /** Calls back after each change, until it is disposed. */
  subscribe(listener: () => void): Disposable;
}

/** Above this many browsers, the interval between changes grows with each of them, in ms. */
const crowdFrom = 500;
const perListenerMs = 2;

/** One version of a view, named by a hash of its text. */
export interface Render {
  readonly version: string;
  readonly text: string;
  readonly html: Html;
}

export interface LiveViewOptions {
  readonly states: readonly Observable[];
  readonly render: () => Html;
  /** Versions that are kept, the newest included, to find what changed since. From 1. */
  readonly rendersMax: number;
  /** Shortest time between two versions that are sent, in milliseconds. */
  readonly intervalMs: number;
  readonly clock: Clock;
  /** Called with the growth of all text that is kept, which may be negative. */
  readonly onKept: (length: number) => void;
  /** Called after a change of state was rendered and sent. */
  readonly onRefreshed: () => void;
  /** Called when rendering fails; browsers then keep what they show. */
  readonly onFailed: (error: unknown) => void;
}

/** A view that all browsers with the same page and key share: rendered once for all of them. */
export class LiveView {
  readonly listeners: Set<NewestStream> = new Set();
  readonly #offers: Sweep<NewestStream> = new Sweep(
    () => this.listeners,
    (listener) => listener.offer(),
  );
  readonly #options: LiveViewOptions;
  readonly #renders = new Map<string, Render>();
  /** Messages by the version that a browser has, made once. */
  readonly #messages = new Map<string, string>();
  #newest: Render | undefined;
  #seen: readonly number[] = [];
  #subscriptions: Disposable[] = [];
  #timer: Disposable | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LiveViewOptions) {
    this.#options = options;
  }

  /** Newest version that was rendered; empty before the first. */
  get version(): string {
    return this.#newest?.version ?? '';
  }

  /** Gives the newest version, rendered again if a state has changed. */
  render(): Render {
    const seen = this.#options.states.map(({ version }) => version);
    const isFresh = seen.every((version, index) => version === this.#seen[index]);
    if (this.#newest !== undefined && isFresh) return this.#newest;
    const html = this.#options.render();
    const text = liveText(html);
    const version = hash('sha256', text, 'base64url').slice(0, 16);
    this.#seen = seen;
    if (version !== this.#newest?.version) this.#keep({ version, text, html });
    return this.#newest as Render;
  }

  /** The event that turns a version into the newest: a patch, or all of it if that is shorter. */
  message(base: string): string | undefined {
    const to = this.#newest;
    if (to === undefined || base === to.version) return undefined;
    const from = this.#renders.get(base);
    const name = from === undefined ? '' : base;
    const known = this.#messages.get(name);
    if (known !== undefined) return known;
    const steps = from && patch(from.html, to.html);
    const full = JSON.stringify(to.text);
    const small = steps === undefined ? full : JSON.stringify(steps);
    const message = `id: ${to.version}\ndata: ${small.length < full.length ? small : full}\n\n`;
    this.#messages.set(name, message);
    return message;
  }

  add(listener: NewestStream): void {
    this.listeners.add(listener);
    if (this.listeners.size > 1) return;
    this.#subscriptions = this.#options.states.map((state) => state.subscribe(this.#changed));
  }

  remove(listener: NewestStream): void {
    if (!this.listeners.delete(listener) || this.listeners.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
    this.#subscriptions = [];
  }

  /** Forgets all versions but the newest, or that one as well. */
  forget(newestToo: boolean): void {
    if (newestToo) this.#newest = undefined;
    for (const { version } of this.#renders.values()) {
      if (version !== this.version) this.#drop(version);
    }
    this.#messages.clear();
  }

  #keep(render: Render): void {
    this.#newest = render;
    this.#messages.clear();
    this.#drop(render.version);
    this.#renders.set(render.version, render);
    for (const version of this.#renders.keys()) {
      if (this.#renders.size <= this.#options.rendersMax) break;
      this.#drop(version);
    }
    this.#options.onKept(render.text.length);
  }

  #drop(version: string): void {
    const length = this.#renders.get(version)?.text.length ?? 0;
    this.#renders.delete(version);
    this.#options.onKept(-length);
  }

  readonly #changed = (): void => {
    if (this.#timer !== undefined) return;
    const { clock, intervalMs } = this.#options;
    const crowdMs = Math.max(0, this.listeners.size - crowdFrom) * perListenerMs;
    const restMs = this.#refreshedAt + Math.max(intervalMs, crowdMs) - clock.now();
    if (restMs <= 0) {
      this.#refresh();
      return;
    }
    this.#timer = clock.after(restMs, () => {
      this.#timer = undefined;
      this.#refresh();
    });
  };

  #refresh(): void {
    const { clock, onFailed, onRefreshed } = this.#options;
    this.#refreshedAt = clock.now();
    try {
      this.render();
    } catch (error) {
      onFailed(error);
      return;
    }
    this.#offers.start();
    onRefreshed();
  }
}
