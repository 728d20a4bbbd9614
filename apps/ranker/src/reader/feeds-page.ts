import { type Html, html, safeUrl } from 'spillway-http';
import type { ReaderFeed } from '../storage/feeds.ts';
import { tokenField } from './frame.ts';
import { ageText } from './list-view.ts';

/** The user's feeds, each with the failure of its last fetch. */
export function feedsView(feeds: readonly ReaderFeed[], token: string, nowMs: number): Html {
  return html`<h1>Feeds</h1>
<form class="row" method="post" action="/feeds">${tokenField(token)}
<label for="url">Address of a feed, or of a page that has one</label>
<div><input class="input" id="url" name="url" type="url" required maxlength="2000"
 placeholder="https://">
<button class="button main">Add</button></div>
<details class="edit"><summary class="button little bare">The feed needs a password…</summary>
${credentialFields()}</details></form>
${feeds.length === 0 ? html`<p class="empty">No feeds yet.</p>` : tableView(feeds, token, nowMs)}
<h2>Move feeds</h2>
<p><a href="/feeds/opml" download>Download your feeds as OPML</a></p>
<form class="row" method="post" action="/feeds/opml">${tokenField(token)}
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
<form method="post" action="/feeds/${feed.id}/refresh">${tokenField(token)}
<button class="button little">Refresh</button></form>
<form method="post" action="/feeds/${feed.id}/remove">${tokenField(token)}
<button class="button little bare" aria-label="Remove ${feed.title || feed.url}">Remove</button>
</form></div></li>`,
  )}</ul>`;
}

function editForm(feed: ReaderFeed, token: string): Html {
  const { id, title, folder, isNamed, isFullText, isPrivate } = feed;
  return html`<details class="edit"><summary class="button little">Edit</summary>
<form method="post" action="/feeds/${id}/edit">${tokenField(token)}
<label>Name <input class="input" name="title" value="${isNamed ? title : ''}"
 placeholder="${title}" maxlength="200"></label>
<label>Folder <input class="input" name="folder" value="${folder}" maxlength="200"></label>
${
  !isPrivate &&
  html`<label class="tick"><input type="checkbox" name="full" value="yes" checked="${isFullText}">
Fetch the full text</label>`
}<button class="button little main">Save</button></form>
<form method="post" action="/feeds/${id}/credentials" autocomplete="off">
${tokenField(token)}${credentialFields()}
<button class="button little main">${isPrivate ? 'Replace' : 'Use these'}</button></form>
${
  isPrivate &&
  html`<form method="post" action="/feeds/${id}/credentials">${tokenField(token)}
<button class="button little bare">Fetch it without credentials</button></form>`
}</details>`;
}

/** Fields for a name and a password, or for a header; none of them is ever filled in. */
function credentialFields(): Html {
  return html`<fieldset><legend>Credentials</legend>
<label>User name <input class="input" name="name" maxlength="500" autocomplete="off"></label>
<label>Password <input class="input" name="password" type="password" maxlength="1000"
 autocomplete="new-password"></label>
<label>or a header <input class="input" name="header" type="password" maxlength="2000"
 autocomplete="off" placeholder="X-Token: …"></label>
<p class="facts">Sent to the site of the feed alone. No page, list or backup shows them.</p>
</fieldset>`;
}

function factsOf(
  { folder, articles, unread, fetchedAt, nextAt, isPrivate }: ReaderFeed,
  nowMs: number,
): string {
  const fetched = fetchedAt === undefined ? 'not fetched yet' : ageText(nowMs - fetchedAt);
  const minutes = Math.max(0, Math.ceil((nextAt - nowMs) / 60_000));
  const next = minutes === 0 ? 'due now' : `again in ${minutes} min`;
  const count = articles === 1 ? '1 article' : `${articles} articles`;
  const secret = isPrivate ? 'with credentials' : '';
  return [folder, count, `${unread} unread`, fetched, next, secret]
    .filter((text) => text !== '')
    .join(' · ');
}
