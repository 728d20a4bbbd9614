import type { FastifyReply } from 'fastify';
import { type Html, type HtmlValue, html, page } from 'spillway-http';
import { actionForm } from './article-view.ts';

export interface FrameOptions {
  readonly title: string;
  /** Which entry of the navigation this is; undefined for none of them. */
  readonly place?: string | undefined;
  /** What the search field holds. */
  readonly search?: string | undefined;
  /** Whom the page is for; undefined if nobody is logged in. */
  readonly name?: string | undefined;
  readonly body: HtmlValue;
}

const places = [
  { name: 'To read', href: '/reader' },
  { name: 'Rated', href: '/reader?list=rated' },
  { name: 'All', href: '/reader?list=all' },
  { name: 'Feeds', href: '/reader/feeds' },
  { name: 'Rules', href: '/reader/rules' },
] as const;

/** A page of the reader; its forms carry a token against changes by other sites. */
export function frame(reply: FastifyReply, options: FrameOptions): Html {
  const { title, body, name, search = '' } = options;
  const { request } = reply;
  const entries = places.map(
    (place) => html`<li><a href="${place.href}"
 aria-current="${place.name === options.place ? 'page' : undefined}">${place.name}</a></li>`,
  );
  const token = reply.csrfToken();
  return page({
    title: `${title} · Ranker`,
    meta: { 'color-scheme': 'light dark' },
    links: [{ rel: 'icon', href: '/reader/assets/icon.svg' }],
    styles: ['/reader/assets/reader.css'],
    scripts: name === undefined ? [] : ['/reader/assets/reader.js'],
    body: html`<a class="skip" href="#main">Skip to the list</a>
<header class="top"><a class="brand" href="/reader">Ranker</a>
${
  name !== undefined &&
  html`<nav aria-label="Reader"><ul>${entries}</ul></nav>
<form class="search" role="search" action="/reader"><label class="hidden" for="q">Search</label>
<input id="q" name="q" type="search" value="${search}" placeholder="Search" maxlength="200">
<button>Search</button></form>
<form class="user" method="post" action="/reader/logout">${tokenField(token)}
<span title="Logged in">${name}</span> <button>Log out</button></form>`
}</header>
<form id="${actionForm}" method="post">${tokenField(token)}
<input type="hidden" name="back" value="${request.url}"></form>
<p id="status" role="status" aria-live="polite"></p>
<main id="main" tabindex="-1">${request.session
      .takeFlash()
      .map(({ kind, text }) => html`<p class="flash flash-${kind}" role="status">${text}</p>`)}
${body}</main>`,
  });
}

/** What a form needs to be believed. */
export function tokenField(token: string): Html {
  return html`<input type="hidden" name="_csrf" value="${token}">`;
}
