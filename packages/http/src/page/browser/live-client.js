// The browser part of live pages that listens to the server: it names the version it shows, shows
// what changed since, and comes back when the connection breaks or the page is looked at again.
import { applyFull, applyPatch, keepingFocus, readHoles } from './live-dom.js';

const pauseMsMin = 500;
const pauseMsMax = 30_000;
/** The server says something at least every 20 seconds; longer silence is a dead connection. */
const silenceMsMax = 60_000;

/** Content of the region, and its holes; the version is an attribute of the region itself. */
class Region {
  constructor(element) {
    this.element = element;
    this.url = element.dataset.liveUrl;
    this.holes = undefined;
  }

  get version() {
    return this.element.dataset.liveVersion;
  }

  /** Shows one message: a patch is an array of steps, and the whole content a string. */
  show(version, content) {
    const { element } = this;
    // From here on the region no longer shows the version it did, even if a step fails.
    element.dataset.liveVersion = '';
    keepingFocus(() => {
      if (typeof content === 'string') {
        applyFull(element, content);
        this.holes = undefined;
      } else {
        this.holes ??= readHoles(element);
        applyPatch(this.holes, content);
      }
    });
    element.dataset.liveVersion = version;
  }
}

/** Shows the messages of one connection until it ends; how long to stay away then, in ms. */
async function listen(region, signal, heard) {
  const headers = { accept: 'text/event-stream', 'last-event-id': region.version };
  const response = await fetch(region.url, { headers, signal, cache: 'no-store' });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  if (response.status === 429 || response.status >= 500) {
    return Number(response.headers.get('retry-after')) * 1_000 || 0;
  }
  // Logged out or gone: only loading the page again can help.
  if (!response.ok || !isStream) return Number.POSITIVE_INFINITY;
  let text = '';
  for await (const chunk of chunks(response.body.pipeThrough(new TextDecoderStream()))) {
    heard();
    const messages = (text + chunk).split('\n\n');
    text = messages.pop();
    for (const message of messages) {
      const [, version, data] = /^id: (\S+)\ndata: (.*)$/.exec(message) ?? [];
      if (data !== undefined) region.show(version, JSON.parse(data));
    }
  }
  return 0;
}

/** Not all browsers can iterate over a stream. */
async function* chunks(stream) {
  const reader = stream.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

async function untilVisible() {
  while (document.hidden) {
    await new Promise((resolve) => {
      document.addEventListener('visibilitychange', resolve, { once: true });
    });
  }
}

async function connect(region) {
  for (let failures = 0; ; failures += 1) {
    await untilVisible();
    const connection = new AbortController();
    const hide = () => document.hidden && connection.abort();
    let timer = setTimeout(() => connection.abort(), silenceMsMax);
    let awayMs = 0;
    const heard = () => {
      failures = 0;
      clearTimeout(timer);
      timer = setTimeout(() => connection.abort(), silenceMsMax);
    };
    // Browsers allow few connections to a host: a hidden page gives up its own for others.
    document.addEventListener('visibilitychange', hide);
    try {
      awayMs = await listen(region, connection.signal, heard);
    } catch (error) {
      if (region.version === '') console.error('live: what changed could not be shown', error);
    } finally {
      clearTimeout(timer);
      connection.abort();
      document.removeEventListener('visibilitychange', hide);
    }
    if (awayMs === Number.POSITIVE_INFINITY) return;
    const pauseMs = Math.max(awayMs, Math.min(pauseMsMax, pauseMsMin * 2 ** failures));
    if (!document.hidden) await new Promise((done) => setTimeout(done, jitter(pauseMs)));
  }
}

/** So that not all browsers come back at the same moment. */
function jitter(ms) {
  return ms * (0.5 + Math.random());
}

const element = document.querySelector('[data-live-url]');
if (element !== null) void connect(new Region(element));
