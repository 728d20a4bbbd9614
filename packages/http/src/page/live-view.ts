import { hash } from 'node:crypto';
import type { Clock } from 'spillway';
import type { Html } from './html.ts';
import type { LiveListener } from './live-listener.ts';
import { liveText, patch } from './patch.ts';

/** What a live page shows, such as a `State`: it says when it changed. */
export interface Observable {
  /** Another one after each change. */
  readonly version: number;
  /** Calls back after each change, until it is disposed. */
  subscribe(listener: () => void): Disposable;
}

/** One version of a view; those that look the same are the same. */
export interface Render {
  readonly version: string;
  readonly text: string;
  readonly html: Html;
}

export interface LiveViewOptions {
  readonly states: readonly Observable[];
  readonly render: () => Html;
  /** How many versions are kept, the newest included, to tell what changed since. From 1. */
  readonly rendersMax: number;
  /** The shortest time between two versions that are sent, in ms. */
  readonly intervalMs: number;
  readonly clock: Clock;
  /** Told how much more text is kept than before, or less. */
  readonly kept: (length: number) => void;
  /** Told after a change of state was rendered and sent. */
  readonly refreshed: () => void;
  /** Told when it cannot be rendered for those who listen; they keep what they have. */
  readonly failed: (error: unknown) => void;
}

/** What all who have the same page of the same key open see: rendered once for all of them. */
export class LiveView {
  readonly listeners: Set<LiveListener> = new Set();
  readonly #options: LiveViewOptions;
  /** By version, the newest last. */
  readonly #renders = new Map<string, Render>();
  /** What to send to those who have a version, found once. */
  readonly #messages = new Map<string, string>();
  #newest: Render | undefined;
  #seen: readonly number[] = [];
  #subscriptions: Disposable[] = [];
  #timer: Disposable | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LiveViewOptions) {
    this.#options = options;
  }

  /** The newest version that was rendered; empty before. */
  get version(): string {
    return this.#newest?.version ?? '';
  }

  /** The newest version, rendered anew if a state has changed. */
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

  /** What turns a version into the newest, as an event; all of the newest if that is shorter. */
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

  add(listener: LiveListener): void {
    this.listeners.add(listener);
    if (this.listeners.size > 1) return;
    this.#subscriptions = this.#options.states.map((state) => state.subscribe(this.#changed));
  }

  remove(listener: LiveListener): void {
    if (!this.listeners.delete(listener) || this.listeners.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
    this.#subscriptions = [];
  }

  /** Forgets all versions but the newest, or also that one. */
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
    this.#options.kept(render.text.length);
  }

  #drop(version: string): void {
    const length = this.#renders.get(version)?.text.length ?? 0;
    this.#renders.delete(version);
    this.#options.kept(-length);
  }

  readonly #changed = (): void => {
    if (this.#timer !== undefined) return;
    const { clock, intervalMs } = this.#options;
    const restMs = this.#refreshedAt + intervalMs - clock.now();
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
    const { clock, failed, refreshed } = this.#options;
    this.#refreshedAt = clock.now();
    try {
      this.render();
    } catch (error) {
      failed(error);
      return;
    }
    for (const listener of this.listeners) listener.offer();
    refreshed();
  }
}
