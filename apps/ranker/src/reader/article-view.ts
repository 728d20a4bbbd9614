import { type Html, html, keyed, safeUrl } from 'spillway-http';
import type { Place } from './order.ts';
import type { ReaderArticle } from './reader-store.ts';

/** The form that all buttons of articles belong to; it stands outside of what is live. */
export const actionForm = 'act';

const scores = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
const leadLengthMax = 240;
/** Of what can be read nowhere else. */
const ownLengthMax = 490;

/** One place of the list. */
export function articleView(place: Place, nowMs: number): Html {
  const { article, others, isExploration } = place;
  const { id, source, publishedAt, vote, unavailable } = article;
  const item = html`<li id="a-${id}" class="article" tabindex="-1" data-article="${id}"
 aria-labelledby="t-${id}">
<div class="verdict">${scoreView(article)}</div>
<div class="story">
<h2 id="t-${id}">${titleView(article)}</h2>
<p class="facts"><span class="source">${source || 'a text of yours'}</span>
<span><time datetime="${new Date(publishedAt).toISOString()}">${ageText(nowMs - publishedAt)}</time>
</span>${[
    boostView(place),
    isExploration &&
      html`<span class="mark explore" title="Shown because its score is unsure: your rating of it
 teaches most">exploring</span>`,
    vote !== undefined && html`<span class="mark yours">you gave ${vote}</span>`,
    unavailable !== undefined && html`<span class="mark">no text: ${unavailable}</span>`,
  ]}</p>
<p class="lead">${shortened(article.lead, hrefOf(article) ? leadLengthMax : ownLengthMax)}</p>
${others.length > 0 && othersView(others, nowMs)}
<div class="acts">${scaleView(article)}
<a class="act why" href="/reader/articles/${id}/why">Why?</a>
<button class="act" form="${actionForm}" formaction="/reader/articles/${id}/done">Done</button>
${source !== '' && moreView(article)}</div>
</div>
</li>`;
  return keyed(id, item);
}

function scoreView({ score, uncertainty }: ReaderArticle): Html {
  if (score === undefined) {
    return html`<span class="score" title="Not scored yet">
<span class="hidden">Not scored yet</span><span aria-hidden="true">–</span></span>`;
  }
  const unsure = uncertainty === undefined ? '' : `, give or take ${uncertainty.toFixed(1)}`;
  return html`<span class="score" data-score="${Math.round(score)}"
 title="Expected score${unsure}"><span class="hidden">Expected score </span>${score.toFixed(1)}
</span>`;
}

/** A text without an address, or with one that could run code, has no link. */
function hrefOf({ url }: ReaderArticle): string | undefined {
  return /^https?:/i.test(url) ? safeUrl(url) : undefined;
}

function titleView(article: ReaderArticle): Html {
  const { title } = article;
  const href = hrefOf(article);
  if (href === undefined) return html`<span>${title}</span>`;
  return html`<a class="title" href="${href}" rel="noopener noreferrer" target="_blank">
${title}</a>`;
}

function boostView({ boost }: Place): Html | undefined {
  if (boost === 0) return undefined;
  const points = boost > 0 ? `+${boost}` : `−${-boost}`;
  return html`<span class="mark">rules ${points}</span>`;
}

function othersView(others: readonly ReaderArticle[], nowMs: number): Html {
  const many = others.length === 1 ? '1 more tells this' : `${others.length} more tell this`;
  return html`<details class="others"><summary>${many}</summary>
<ul>${others.map((other) =>
    keyed(
      other.id,
      html`<li>${titleView(other)} <span class="source">${other.source}</span>
 <span>${ageText(nowMs - other.publishedAt)}</span></li>`,
    ),
  )}</ul></details>`;
}

/** Ten buttons that rate at once; a pressed one is what the user gave, and takes it back. */
function scaleView({ id, title, vote }: ReaderArticle): Html {
  return html`<div class="scale" role="group" aria-label="Rate: ${title}">
${scores.map(
  (score) => html`<button form="${actionForm}"
 formaction="/reader/articles/${id}/${score === vote ? 'unvote' : 'vote'}"
 name="score" value="${score}" aria-pressed="${score === vote ? 'true' : 'false'}"
 aria-label="${score} of 10">${score}</button>`,
)}</div>`;
}

function moreView({ title, source }: ReaderArticle): Html {
  const rule = (kind: string, points: number) => JSON.stringify([kind, 'source', source, points]);
  const words = new URLSearchParams({ field: 'words', value: title.slice(0, 200) });
  return html`<details class="more"><summary class="act">Rules</summary>
<div class="menu">${[
    { name: `Mute ${source}`, value: rule('mute', 0) },
    { name: `Boost ${source}`, value: rule('boost', 1) },
    { name: `Lower ${source}`, value: rule('boost', -1) },
  ].map(
    ({ name, value }) => html`<button class="act" form="${actionForm}"
 formaction="/reader/rules/quick" name="rule" value="${value}">${name}</button>`,
  )}<a class="act" href="/reader/rules?${words.toString()}">Mute or boost words…</a></div>
</details>`;
}

function shortened(text: string, lengthMax: number): string {
  const plain = text.replace(/\s+/g, ' ').trim();
  if (plain.length <= lengthMax) return plain;
  const cut = plain.slice(0, lengthMax);
  const whole = cut.slice(0, Math.max(cut.lastIndexOf(' '), lengthMax / 2));
  return `${whole.replace(/[\s.,;:!?]+$/, '')}…`;
}

const minuteMs = 60_000;

/** How long ago something was, for people. */
export function ageText(ms: number): string {
  const minutes = Math.floor(ms / minuteMs);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  const days = Math.floor(hours / 24);
  return days === 1 ? 'yesterday' : `${days} days ago`;
}
