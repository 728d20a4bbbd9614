import { type Html, html, safeUrl } from 'spillway-http';
import type { ReaderFeed } from '../storage/feeds.ts';
import { tokenField } from './frame.ts';
import { ageText } from './list-view.ts';

/** The user's feeds, with what the last fetch of each has failed by. */
export function feedsView(feeds: readonly ReaderFeed[], token: string, nowMs: number): Html {
  return html`<h1>Feeds</h1>
<form class="row" method="post" action="/reader/feeds">${tokenField(token)}
<label for="url">Address of a feed, or of a page that has one</label>
<div><input class="input" id="url" name="url" type="url" required maxlength="2000"
 placeholder="https://">
<button class="button main">Add</button></div></form>
${feeds.length === 0 ? html`<p class="empty">No feeds yet.</p>` : tableView(feeds, token, nowMs)}
<h2>Move feeds</h2>
<p><a href="/reader/feeds.opml" download>Download your feeds as OPML</a></p>
<form class="row" method="post" action="/reader/feeds/import">${tokenField(token)}
<label for="opml">OPML of another reader: paste it here</label>
<textarea class="input" id="opml" name="opml" rows="4" required spellcheck="false"></textarea>
<div><label class="file" data-fills="opml" hidden>or choose its file
 <input type="file" accept=".opml,.xml,text/xml,text/x-opml"></label>
<button class="button">Import</button></div></form>`;
}

function tableView(feeds: readonly ReaderFeed[], token: string, nowMs: number): Html {
  return html`<ul class="rows">${feeds.map(
    (feed) => html`<li><div><strong>${feed.title || feed.url}</strong>
<span class="facts">${factsOf(feed, nowMs)}</span>
<a class="facts" href="${safeUrl(feed.url)}" rel="noopener noreferrer">${feed.url}</a>
${
  feed.failure !== undefined &&
  html`<p class="failure"><strong>Last error</strong> (${
    feed.failures === 1 ? 'once' : `${feed.failures} times in a row`
  }): ${feed.failure}</p>`
}</div>
<div class="acts">${editForm(feed, token)}
<form method="post" action="/reader/feeds/${feed.id}/refresh">${tokenField(token)}
<button class="button little">Refresh</button></form>
<form method="post" action="/reader/feeds/${feed.id}/remove">${tokenField(token)}
<button class="button little bare" aria-label="Remove ${feed.title || feed.url}">Remove</button>
</form></div></li>`,
  )}</ul>`;
}

function editForm({ id, title, folder, isFullText }: ReaderFeed, token: string): Html {
  return html`<details class="edit"><summary class="button little">Edit</summary>
<form method="post" action="/reader/feeds/${id}/edit">${tokenField(token)}
<label>Name <input class="input" name="title" value="${title}" maxlength="200"></label>
<label>Folder <input class="input" name="folder" value="${folder}" maxlength="200"></label>
<label class="tick"><input type="checkbox" name="full" value="yes" checked="${isFullText}">
Fetch the full text</label><button class="button little main">Save</button></form></details>`;
}

function factsOf(
  { folder, articles, unread, fetchedAt, nextAt }: ReaderFeed,
  nowMs: number,
): string {
  const fetched = fetchedAt === undefined ? 'not fetched yet' : ageText(nowMs - fetchedAt);
  const minutes = Math.max(0, Math.ceil((nextAt - nowMs) / 60_000));
  const next = minutes === 0 ? 'due now' : `again in ${minutes} min`;
  const count = articles === 1 ? '1 article' : `${articles} articles`;
  return [folder, count, `${unread} unread`, fetched, next]
    .filter((text) => text !== '')
    .join(' · ');
}
