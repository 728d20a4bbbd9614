import { type Html, type HtmlValue, html } from '../html.ts';
import { type PageOptions, page } from '../page.ts';
import { kitUrls } from './assets.ts';

/** A service in the first row; only services that run are listed. */
export interface ServiceLink {
  readonly name: string;
  readonly href: string;
  /** True if the page belongs to it. @default false */
  readonly current?: boolean | undefined;
  /** Sentence about a problem of that service, behind a triangle. @default none */
  readonly warning?: string | undefined;
}

/** A link of the service in the second row. */
export interface PlaceLink {
  readonly name: string;
  readonly href: string;
  /** True if the page is that place or below it. @default false */
  readonly current?: boolean | undefined;
  /** Number beside the name, such as how many machines there are. @default none */
  readonly count?: string | undefined;
}

export interface FramedPageOptions
  extends Pick<PageOptions, 'title' | 'meta' | 'styles' | 'scripts' | 'refreshSeconds'> {
  /** Content of `main`. */
  readonly main: HtmlValue;
  /** Services of the first row. @default none */
  readonly services?: readonly ServiceLink[] | undefined;
  /** Places of the second row. @default none: the row is left out */
  readonly places?: readonly PlaceLink[] | undefined;
  /** Address behind the name Spillway. @default '/' */
  readonly home?: string | undefined;
  /** True if the page is live: a mark in the bar says so. @default false */
  readonly live?: boolean | undefined;
  /** Right end of the first row, such as the user who is logged in. @default nothing */
  readonly tools?: HtmlValue;
  /** Messages that confirm an action: see `toasts`. @default none */
  readonly toasts?: HtmlValue;
}

/** A page in the frame that all services share: skip link, two rows of navigation, `main`. */
export function framedPage(options: FramedPageOptions): Html {
  const { title, main, services = [], places = [], tools, toasts } = options;
  const { styles = [], scripts = [], refreshSeconds } = options;
  const body = html`<a class="skip" href="#main">Skip to the page</a>
<header class="bar">
${brand(options.home ?? '/')}
${services.length > 0 && nav('services', 'Services', services.map(service))}
<div class="tools">
${options.live === true && html`<span class="live" role="status">Live</span>`}
<button type="button" class="button bare little long" data-theme-switch>Theme</button>
${tools}</div>
</header>
${places.length > 0 && nav('places', 'Places', places.map(place))}
<main id="main" class="page" tabindex="-1">
${main}
</main>
${toasts}`;
  return page({
    title,
    body,
    meta: { 'color-scheme': 'light dark', ...options.meta },
    links: [{ rel: 'icon', href: kitUrls.icon }],
    styles: [kitUrls.style, ...styles],
    scripts: [kitUrls.script, ...scripts],
    refreshSeconds,
  });
}

function nav(kind: string, label: string, links: readonly Html[]): Html {
  return html`<nav class="${kind}" aria-label="${label}">${links}</nav>`;
}

function brand(href: string): Html {
  return html`<a class="brand" href="${href}" aria-label="Spillway">
<svg viewBox="0 0 24 24" aria-hidden="true">
<path d="M2 6h5c7 0 5 11 12 11h3"/><path d="M2 21h20" opacity=".35"/></svg>
<span>Spillway</span></a>`;
}

function service({ name, href, current, warning }: ServiceLink): Html {
  const mark =
    warning !== undefined &&
    html`<span class="state" data-state="warn" title="${warning}">
<span class="hidden">${warning}</span></span>`;
  return html`<a href="${href}" aria-current="${current === true && 'true'}">${name}${mark}</a>`;
}

function place({ name, href, current, count }: PlaceLink): Html {
  const number = count !== undefined && html`<span class="count">${count}</span>`;
  return html`<a href="${href}" aria-current="${current === true && 'page'}">${name}${number}</a>`;
}

export interface PageHeadOptions {
  readonly title: string;
  /** Words and states beside the title. @default nothing */
  readonly about?: HtmlValue;
  /** Buttons at the right end, at most one of them a main one. @default none */
  readonly actions?: HtmlValue;
  /** Path to this page, from the outermost: name and address. @default none */
  readonly crumbs?: readonly { readonly name: string; readonly href?: string }[] | undefined;
}

/** The head of a page: the path to it, its title, a few facts and its main buttons. */
export function pageHead({ title, about, actions, crumbs = [] }: PageHeadOptions): Html {
  return html`${crumbs.length > 0 && html`<p class="crumbs">${crumbs.map(crumb)}</p>`}
<div class="page-head"><div class="head-title"><h1>${title}</h1>${about}</div>${actions}</div>`;
}

function crumb({ name, href }: { readonly name: string; readonly href?: string }, at: number) {
  const link = href === undefined ? name : html`<a href="${href}">${name}</a>`;
  return html`<span>${at > 0 && ' / '}${link}</span>`;
}

export interface CardOptions {
  /** Identifier of the heading, unique in the page. */
  readonly id: string;
  readonly title: string;
  /** Words in a quiet colour or a number after the title. @default nothing */
  readonly about?: HtmlValue;
  /** Right end of the head: a legend, tabs, a search. @default nothing */
  readonly tools?: HtmlValue;
  readonly body: HtmlValue;
  /** True if the body reaches the edges, as a table does. @default false */
  readonly flush?: boolean | undefined;
}

/** A box with a heading. */
export function card({ id, title, about, tools, body, flush = false }: CardOptions): Html {
  const count = about !== undefined && html` <span class="count">${about}</span>`;
  const content = flush ? body : html`<div class="card-body">${body}</div>`;
  return html`<section class="card" aria-labelledby="${id}">
<div class="card-head"><h2 id="${id}">${title}${count}</h2>${tools}</div>
${content}
</section>`;
}
