import { type Html, html, safeUrl } from 'spillway-http';
import { ageText } from './article-view.ts';
import { tokenField } from './frame.ts';
import type { ReaderFeed } from './reader-store.ts';

/** The user's feeds, with what the last fetch of each has failed by. */
export function feedsView(feeds: readonly ReaderFeed[], token: string, nowMs: number): Html {
  return html`<h1>Feeds</h1>
<form class="row" method="post" action="/reader/feeds">${tokenField(token)}
<label for="url">Address of a feed, or of a page that has one</label>
<div><input id="url" name="url" type="url" required maxlength="2000" placeholder="https://">
<button class="main">Add</button></div></form>
${feeds.length === 0 ? html`<p class="empty">No feeds yet.</p>` : tableView(feeds, token, nowMs)}
<h2>Move feeds</h2>
<p><a href="/reader/feeds.opml" download>Download your feeds as OPML</a></p>
<form class="row" method="post" action="/reader/feeds/import">${tokenField(token)}
<label for="opml">OPML of another reader: paste it here</label>
<textarea id="opml" name="opml" rows="4" required spellcheck="false"></textarea>
<div><label class="file" data-fills="opml" hidden>or choose its file
 <input type="file" accept=".opml,.xml,text/xml,text/x-opml"></label>
<button>Import</button></div></form>`;
}

function tableView(feeds: readonly ReaderFeed[], token: string, nowMs: number): Html {
  return html`<ul class="feeds">${feeds.map(
    (feed) => html`<li><div><strong>${feed.title || feed.url}</strong>
<span class="facts">${factsOf(feed, nowMs)}</span>
<a class="facts" href="${safeUrl(feed.url)}" rel="noopener noreferrer">${feed.url}</a>
${
  feed.failure !== undefined &&
  html`<p class="failure"><strong>Last error</strong> (${
    feed.failures === 1 ? 'once' : `${feed.failures} times in a row`
  }): ${feed.failure}</p>`
}</div>
<form method="post" action="/reader/feeds/${feed.id}/remove">${tokenField(token)}
<button aria-label="Remove ${feed.title || feed.url}">Remove</button></form></li>`,
  )}</ul>`;
}

function factsOf({ folder, articles, fetchedAt, nextAt }: ReaderFeed, nowMs: number): string {
  const fetched = fetchedAt === undefined ? 'not fetched yet' : ageText(nowMs - fetchedAt);
  const minutes = Math.max(0, Math.ceil((nextAt - nowMs) / 60_000));
  const next = minutes === 0 ? 'due now' : `again in ${minutes} min`;
  const count = articles === 1 ? '1 article' : `${articles} articles`;
  return [folder, count, fetched, next].filter((text) => text !== '').join(' · ');
}
