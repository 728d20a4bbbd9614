import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { BrowserOptions, RenderedPage } from './browser.ts';
import { webUrl } from './canonical-url.ts';
import { GuardProxy } from './guard-proxy.ts';
import { statusFailure } from './status-failure.ts';
import { UnavailableError } from './unavailable.ts';

/** Types of resources that are not loaded: the text does not need them. */
const blocked = /^(image|font|media|texttrack|manifest|ping|eventsource)$/;
const startMsMax = 15_000;
/** The interval of looking at the text, in milliseconds. */
const pollMs = 250;
const pollsMax = 60;
/** A longer text is complete when it has stayed the same for this many looks. */
const stillPolls = 3;
/** The same for a text of hardly any characters, which may still be loading. */
const emptyPolls = 12;
const someChars = 250;

const launchArguments = [
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-quic',
  // Only the proxy resolves names, and no connection bypasses it.
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
];

/** One browser process, with a guarded proxy of its own. */
export class BrowserSession {
  readonly #browser: Browser;
  readonly #proxy: GuardProxy;
  #active = 0;
  #isRetired = false;
  #ended: Promise<void> | undefined;
  pages = 0;

  static async open({ found, guard, sandbox = true }: BrowserOptions): Promise<BrowserSession> {
    // Loaded when it is needed: it takes as long as the rest of the program.
    const { chromium } = await import('playwright-core');
    const { path, env } = await found.prepare();
    const proxy = await GuardProxy.open(guard);
    try {
      const browser = await chromium.launch({
        executablePath: path,
        env,
        proxy: { server: proxy.url },
        args: launchArguments,
        // Chromium refuses to run as root with its sandbox: use another user for the service.
        chromiumSandbox: sandbox && process.getuid?.() !== 0,
        timeout: startMsMax,
        handleSIGHUP: false,
        handleSIGINT: false,
        handleSIGTERM: false,
      });
      return new BrowserSession(browser, proxy);
    } catch (error) {
      await proxy.close();
      throw error;
    }
  }

  private constructor(browser: Browser, proxy: GuardProxy) {
    this.#browser = browser;
    this.#proxy = proxy;
  }

  get isAlive(): boolean {
    return this.#browser.isConnected() && !this.#isRetired;
  }

  /** Loads a page in a fresh context, and waits until its text no longer changes. */
  async render(url: string, charsMax: number, signal: AbortSignal): Promise<RenderedPage> {
    this.pages += 1;
    this.#active += 1;
    let context: BrowserContext | undefined;
    const leave = () => void context?.close().catch(() => {});
    signal.addEventListener('abort', leave, { once: true });
    try {
      signal.throwIfAborted();
      context = await this.#browser.newContext({ acceptDownloads: false, serviceWorkers: 'block' });
      signal.throwIfAborted();
      return await this.#read(await context.newPage(), url, charsMax);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof UnavailableError) throw error;
      const [reason = ''] = (error as Error).message.split('\n');
      throw new UnavailableError('server_error', `the browser cannot read it: ${reason}`);
    } finally {
      signal.removeEventListener('abort', leave);
      await context?.close().catch(() => {});
      this.#active -= 1;
      if (this.#isRetired && this.#active === 0) void this.#end();
    }
  }

  /** Accepts no more pages, and ends the browser after the last one. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    if (this.#active === 0) await this.#end();
  }

  #end(): Promise<void> {
    this.#ended ??= this.#browser
      .close()
      .catch(() => {})
      .then(() => this.#proxy.close());
    return this.#ended;
  }

  async #read(page: Page, url: string, charsMax: number): Promise<RenderedPage> {
    // The signal ends a page that takes too long.
    page.setDefaultTimeout(0);
    page.on('popup', (popup) => void popup.close().catch(() => {}));
    await page.route('**/*', (route) => {
      const isNeeded = !blocked.test(route.request().resourceType());
      return (isNeeded ? route.continue() : route.abort()).catch(() => {});
    });
    const answer = await page.goto(url, { waitUntil: 'domcontentloaded' });
    const failure = answer && statusFailure(answer.status(), answer.headers());
    if (failure) throw failure;
    await settle(page);
    const html = await page.evaluate<string>(
      `(() => { const html = document.documentElement.outerHTML;
        return html.length <= ${charsMax} ? html : ''; })()`,
    );
    if (html === '') throw new UnavailableError('too_large', `more than ${charsMax} characters`);
    return { url: webUrl(page.url())?.href ?? url, html };
  }
}

/** Waits until the text of a page stays the same, with a limit: some pages never settle. */
async function settle(page: Page): Promise<void> {
  let length = -1;
  let still = 0;
  for (let poll = 0; poll < pollsMax; poll += 1) {
    const now = await page.evaluate<number>('document.body?.innerText.length ?? 0');
    still = now === length ? still + 1 : 0;
    length = now;
    if (still >= (length >= someChars ? stillPolls : emptyPolls)) return;
    await page.waitForTimeout(pollMs);
  }
}
