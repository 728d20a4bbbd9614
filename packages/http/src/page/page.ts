import { gzip } from 'node:zlib';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Json } from 'spillway';
import { jsonText } from 'spillway/internal';
import { plugin } from '../base/plugin.ts';
import { escaped, Html, type HtmlValue, html, Raw } from './html.ts';

export interface PageOptions {
  /** Title on the browser's tab. */
  readonly title: string;
  /** Content of the body. */
  readonly body: HtmlValue;
  /** Language of the text. @default 'en' */
  readonly lang?: string | undefined;
  /** Content of `meta` elements, by name; `viewport` is always set. @default none */
  readonly meta?: Readonly<Record<string, string>> | undefined;
  /** Addresses of `link` elements, with their `rel`. */
  readonly links?: readonly { readonly rel: string; readonly href: string }[] | undefined;
  /** Addresses of style sheets. */
  readonly styles?: readonly string[] | undefined;
  /** Addresses of ES modules: no script stands in the page, so a strict policy can forbid those. */
  readonly scripts?: readonly string[] | undefined;
  /** Data for the modules, each in a `script` of type `application/json` with this id. */
  readonly data?: Readonly<Record<string, Json>> | undefined;
  /** Seconds after which a browser without script loads the page again. @default never */
  readonly refreshSeconds?: number | undefined;
}

/** A whole page around a body. */
export function page(options: PageOptions): Html {
  const { title, body, lang = 'en', meta = {}, links = [], styles = [], scripts = [] } = options;
  const { data = {}, refreshSeconds } = options;
  const refresh = refreshSeconds !== undefined && refreshWithoutScript(refreshSeconds);
  const width = { viewport: 'width=device-width, initial-scale=1', ...meta };
  return html`<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<title>${title}</title>
${Object.entries(width).map(([name, content]) => html`<meta name="${name}" content="${content}">`)}
${refresh}
${links.map(({ rel, href }) => html`<link rel="${rel}" href="${href}">`)}
${styles.map((href) => html`<link rel="stylesheet" href="${href}">`)}
${Object.entries(data).map(([id, value]) => inlineData(id, value))}
${scripts.map((src) => html`<script type="module" src="${src}"></script>`)}
</head>
<body>
${body}
</body>
</html>
`;
}

/** Reloads the page without script; with script a page counts down, and people can stop it. */
function refreshWithoutScript(seconds: number): Raw {
  const content = Math.ceil(seconds);
  return new Raw(`<noscript><meta http-equiv="refresh" content="${content}"></noscript>`);
}

/** No JSON needs a `<`, and without it nothing can end the script or begin a comment in it. */
function inlineData(id: string, value: Json): Raw {
  const text = jsonText(value).replaceAll('<', '\\u003c');
  return new Raw(`<script type="application/json" id="${escaped(id)}">${text}</script>`);
}

/** Characters from which a page is compressed: a shorter one fits into a packet or two anyway. */
const compressedMin = 2_000;
/** Gives nearly the size of the highest level for a third of its time. */
const level = 5;

function isWorthCompressing(text: string, request: FastifyRequest, reply: FastifyReply): boolean {
  return (
    text.length >= compressedMin &&
    String(reply.getHeader('content-type')).startsWith('text/html') &&
    /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(request.headers['accept-encoding'] ?? '') &&
    !reply.hasHeader('content-encoding')
  );
}

/** Compresses a page. Tokens of forms are masked anew on each page, so its size tells nothing. */
function compress(text: string, reply: FastifyReply, done: DoneSending): void {
  const vary = reply.getHeader('vary');
  reply.header('vary', vary === undefined ? 'accept-encoding' : `${vary}, accept-encoding`);
  gzip(text, { level }, (error, bytes) => {
    if (error === null) reply.header('content-encoding', 'gzip').removeHeader('content-length');
    done(null, error === null ? bytes : text);
  });
}

type DoneSending = (error: Error | null, payload: unknown) => void;

/** Lets routes answer with `html` and pages, which are compressed for browsers that take it. */
export const pages: FastifyPluginAsync = plugin('pages', async (app) => {
  const type = 'text/html; charset=utf-8';
  app.addHook('preSerialization', (_request, reply, payload, done) => {
    if (payload instanceof Html) reply.type(type).serializer(String);
    done(null, payload);
  });
  // Fastify serialises nothing when the route has said a type that is not JSON.
  app.addHook('onSend', (request, reply, payload: unknown, done) => {
    const text = payload instanceof Html ? String(payload) : payload;
    if (typeof text === 'string' && isWorthCompressing(text, request, reply)) {
      compress(text, reply, done);
    } else done(null, text);
  });
});
