import type { FastifyReply } from 'fastify';
import { type Html, type HtmlValue, html, page } from 'spillway-http';
import { kitUrls } from 'spillway-http/kit';

export interface FrameOptions {
  readonly title: string;
  /** Text of the search field. */
  readonly search?: string | undefined;
  /** The user's name; undefined if nobody is logged in. */
  readonly name?: string | undefined;
  readonly body: HtmlValue;
  /** `panes` has three columns that scroll by themselves. @default 'page' */
  readonly layout?: 'page' | 'panes' | undefined;
}

/** The form that all buttons of articles belong to; it is outside of the live part. */
export const actionForm = 'act';

const keys = [
  ['j k', 'next, previous'],
  ['o', 'open'],
  ['1–9 0', 'rate'],
  ['w', 'why'],
  ['s', 'star'],
  ['l', 'later'],
  ['x', 'done'],
  ['m', 'unread'],
  ['u', 'take back'],
  ['v', 'original'],
  ['shift a', 'all read'],
  ['/', 'search'],
] as const;

/** A page of the reader; its forms carry a token against changes by other sites. */
export function frame(reply: FastifyReply, options: FrameOptions): Html {
  const { title, body, name, search = '', layout = 'page' } = options;
  const { request } = reply;
  const token = reply.csrfToken();
  const flashes = request.session
    .takeFlash()
    .map(({ kind, text }) => html`<p class="flash flash-${kind}" role="status">${text}</p>`);
  return page({
    title: `${title} · Reader`,
    meta: { 'color-scheme': 'light dark' },
    links: [
      { rel: 'icon', href: kitUrls.icon },
      { rel: 'manifest', href: '/reader/assets/manifest.json' },
    ],
    styles: [kitUrls.style, '/reader/assets/reader.css'],
    scripts: [kitUrls.script, ...(name === undefined ? [] : ['/reader/assets/reader.js'])],
    body: html`<div class="${layout === 'panes' ? 'app' : 'plain'}">
<a class="skip" href="#main">Skip to the page</a>
<header class="bar"><a class="brand" href="/reader" aria-label="Reader">
<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M2 6h5c7 0 5 11 12 11h3"/>
<path d="M2 21h20" opacity=".35"/></svg><span>Reader</span></a>
<div class="tools">${name !== undefined && searchForm(search)}
<button type="button" class="button bare little long" data-theme-switch>Theme</button>
${name !== undefined && logoutForm(name, token)}</div></header>
<main id="main" class="${layout}" tabindex="-1">
${layout === 'page' && name !== undefined && html`<p><a href="/reader">Back to the list</a></p>`}
${body}</main>
${layout === 'panes' && keysView()}</div>
<form id="${actionForm}" method="post">${tokenField(token)}
<input type="hidden" name="back" value="${request.url}"></form>
<div id="status" class="toasts" role="status" aria-live="polite">${flashes}</div>`,
  });
}

function searchForm(search: string): Html {
  return html`<form class="search" role="search" action="/reader">
<label class="hidden" for="q">Search your articles</label>
<input class="input" id="q" name="q" type="search" value="${search}" placeholder="Search ( / )"
 maxlength="200"><button class="hidden">Search</button></form>`;
}

function logoutForm(name: string, token: string): Html {
  return html`<form method="post" action="/reader/logout">${tokenField(token)}
<button class="button bare little" data-user="${name}" title="Logged in as ${name}">Log out
</button></form>`;
}

function keysView(): Html {
  const shown = keys.map(
    ([names, what]) =>
      html`<span>${names.split(' ').map((one) => html`<kbd>${one}</kbd> `)}${what}</span>`,
  );
  return html`<footer class="app-foot keys">${shown}</footer>`;
}

/** The field with the token that a form must have. */
export function tokenField(token: string): Html {
  return html`<input type="hidden" name="_csrf" value="${token}">`;
}
