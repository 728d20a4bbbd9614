import { type Clock, deadline, Lane, type LaneStats, systemClock } from 'spillway';
import { checkInteger, checkNumber, untilAborted } from 'spillway/internal';
import type { FoundBrowser } from 'spillway-browser';
import type { AddressGuard } from './address-guard.ts';
import { BrowserSession } from './browser-session.ts';
import { UnavailableError } from './unavailable.ts';

export interface BrowserOptions {
  /** The program: Chromium or its headless shell. */
  readonly found: FoundBrowser;
  readonly guard: AddressGuard;
  /**
   * Chromium's own sandbox, a second wall around the scripts of pages. Without it a hole in the
   * browser gives a page the rights of this process. Some containers forbid it; root has none.
   * @default true
   */
  readonly sandbox?: boolean | undefined;
  /** Longest time from the start of a page to its text, in milliseconds, from 1. @default 45000 */
  readonly pageMsMax?: number | undefined;
  /** The pages after which the browser is replaced. An integer from 1. @default 100 */
  readonly pagesMax?: number | undefined;
  /** The idle time after which the browser is closed, in milliseconds, from 0. @default 60000 */
  readonly idleMsMax?: number | undefined;
  /** The largest page, in characters, from 1. @default 5 Mi */
  readonly charsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface BrowserStats {
  readonly lane: LaneStats;
  /** Pages that were opened. */
  readonly pages: number;
  /** Browsers that were started. */
  readonly started: number;
  readonly isRunning: boolean;
  /** The error of the last start that failed. */
  readonly lastError: unknown;
}

/** A page after its scripts have run. */
export interface RenderedPage {
  readonly url: string;
  readonly html: string;
}

type BrowserSettings = BrowserOptions &
  Record<'pageMsMax' | 'pagesMax' | 'idleMsMax' | 'charsMax', number>;

const pagesAtOnce = 2;
const queueMax = 16;
const waitMsMax = 30_000;
/** The pause after a failed start, in milliseconds. */
const quietMs = 60_000;

/** One browser for pages that need scripts: started at the first one, and always closed. */
export class Browser {
  readonly #settings: BrowserSettings;
  readonly #clock: Clock;
  readonly #lane: Lane;
  readonly #stop = new AbortController();
  #session: BrowserSession | undefined;
  #starting: Promise<BrowserSession> | undefined;
  #idle: Disposable | undefined;
  /** Browsers that are ending: they were replaced or idle. */
  #retiring: Promise<void> = Promise.resolve();
  #quietUntil = -Infinity;
  #pages = 0;
  #started = 0;
  #lastError: unknown;

  constructor(options: BrowserOptions) {
    const {
      pageMsMax = 45_000,
      pagesMax = 100,
      idleMsMax = 60_000,
      charsMax = 5 * 1_048_576,
    } = options;
    checkNumber('pageMsMax', pageMsMax, 1);
    checkInteger('pagesMax', pagesMax, 1);
    checkNumber('idleMsMax', idleMsMax, 0);
    checkInteger('charsMax', charsMax, 1);
    this.#settings = { ...options, pageMsMax, pagesMax, idleMsMax, charsMax };
    this.#clock = options.clock ?? systemClock;
    const deadlineMs = waitMsMax + pageMsMax;
    this.#lane = new Lane({
      name: 'browser',
      limit: { fixed: pagesAtOnce },
      queueMax,
      deadlineMs,
      clock: this.#clock,
    });
  }

  get stats(): BrowserStats {
    return {
      lane: this.#lane.stats,
      pages: this.#pages,
      started: this.#started,
      isRunning: this.#session !== undefined,
      lastError: this.#lastError,
    };
  }

  /**
   * Rejects with an `UnavailableError`, when busy, or with the signal's reason. At the time limit
   * it rejects at once, but its permit is held until the page is really closed.
   */
  async render(url: string, signal?: AbortSignal): Promise<RenderedPage> {
    const { pageMsMax } = this.#settings;
    const stop = this.#stop.signal;
    const entry = { signal: signal ? AbortSignal.any([signal, stop]) : stop };
    const permit = await this.#lane.enter(entry);
    const limit = deadline(this.#clock, pageMsMax, permit.signal);
    const page = this.#render(url, limit.signal).finally(() => {
      limit[Symbol.dispose]();
      permit[Symbol.dispose]();
      this.#rest();
    });
    try {
      return await untilAborted(page, limit.signal);
    } catch (error) {
      if (!limit.signal.aborted || permit.signal.aborted) throw error;
      throw new UnavailableError('timeout', `not rendered within ${pageMsMax} ms`);
    }
  }

  /** Cancels all pages, and ends the browser. */
  async close(): Promise<void> {
    this.#stop.abort(new UnavailableError('server_error', 'the browser is closed'));
    await this.#lane.close();
    this.#idle?.[Symbol.dispose]();
    await this.#starting?.catch(() => {});
    await this.#retire();
  }

  async #render(url: string, signal: AbortSignal): Promise<RenderedPage> {
    this.#idle?.[Symbol.dispose]();
    const session = await this.#open();
    this.#pages += 1;
    return await session.render(url, this.#settings.charsMax, signal);
  }

  /** The running browser, unless it is due to be replaced. */
  #open(): Promise<BrowserSession> {
    const session = this.#session;
    if (session?.isAlive && session.pages < this.#settings.pagesMax)
      return Promise.resolve(session);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #start(): Promise<BrowserSession> {
    const failure = new UnavailableError('too_short', 'the browser it needs does not start');
    if (this.#clock.now() < this.#quietUntil) throw failure;
    // The old browser finishes its pages first.
    void this.#retire();
    try {
      this.#started += 1;
      this.#session = await BrowserSession.open(this.#settings);
      return this.#session;
    } catch (error) {
      this.#quietUntil = this.#clock.now() + quietMs;
      this.#lastError = error;
      throw failure;
    }
  }

  #rest(): void {
    if (this.#lane.stats.inside > 0) return;
    this.#idle?.[Symbol.dispose]();
    this.#idle = this.#clock.after(this.#settings.idleMsMax, () => void this.#retire());
  }

  /** Resolves when all browsers of before have ended. */
  #retire(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    const both = [this.#retiring, session?.retire()];
    this.#retiring = Promise.all(both).then(() => {});
    return this.#retiring;
  }
}
