import { type Html, type HtmlValue, html, safeUrl } from 'spillway-http';
import { type PageImage, textLength } from '../fetching/page-images.ts';
import type { Explained, Ranked } from '../ranking/article-ranking.ts';
import type { ReaderArticle } from '../ranking/reader.ts';
import { actionForm } from './frame.ts';
import { type ListQuery, listAddress } from './list-view.ts';

/** An article that is open: its text, and the reasons of its score. */
export interface OpenArticle {
  readonly listed: ReaderArticle;
  readonly ranked: Ranked | undefined;
  /** The title of its feed; undefined for an article without one. */
  readonly feedTitle: string | undefined;
  /** The path on this server of a picture elsewhere. */
  readonly imagePath: (url: string) => string;
}

const scores = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
/** Paragraphs that are shown; the rest of a longer article is read on its own site. */
const paragraphsMax = 400;

/** The third pane while nothing is open. */
export function closedPane(): Html {
  return html`<article class="pane article" id="article"><div class="sheet">
<p class="quiet">Choose an article: its text opens here.</p></div></article>`;
}

/** The article with its text, what can be done with it, and why it has its score. */
export function articlePane(open: OpenArticle, query: ListQuery): Html {
  const { listed, ranked, feedTitle } = open;
  const { id, title, source, author, publishedAt, url } = listed;
  const href = /^https?:/i.test(url) ? safeUrl(url) : undefined;
  const date = new Date(publishedAt).toISOString();
  const place = feedTitle ?? source;
  const from = [author, place === source ? undefined : source].filter(Boolean).join(' · ');
  return html`<article class="pane article" id="article" aria-labelledby="title"
 data-open="${id}">
<div class="sheet"><a class="back button little" href="${listAddress(query)}">Back to the list</a>
<header><p class="small">${place}<span class="quiet">
${from !== '' && ` · ${from}`} · <time datetime="${date}">${date.slice(0, 16).replace('T', ' ')}
</time></span></p>
<h2 id="title">${title}</h2>
<div class="row">${marksView(listed)}
${
  href !== undefined &&
  html`<a class="button little original" href="${href}" target="_blank"
 rel="noopener noreferrer">Original <kbd>v</kbd></a>`
}${moreView(listed)}</div></header>
${ranked?.explained !== undefined && whyView(ranked, ranked.explained)}
<div class="prose">${proseOf(open)}</div>
</div>${scaleView(listed)}</article>`;
}

function marksView({ id, isStarred, isLater }: ReaderArticle): Html {
  const mark = (name: string, isSet: boolean, words: HtmlValue, key: string) =>
    html`<button class="button little" form="${actionForm}" aria-pressed="${String(isSet)}"
 formaction="/articles/${id}/${isSet ? 'un' : ''}${name}">${words} <kbd>${key}</kbd>
</button>`;
  return html`${mark('star', isStarred, isStarred ? 'Starred' : 'Star', 's')}
${mark('later', isLater, isLater ? 'Saved for later' : 'Later', 'l')}`;
}

function moreView(article: ReaderArticle): Html {
  const { id, source, title, url, feedId, author, tags } = article;
  const rule = (kind: string, field: string, value: string, points: number) =>
    JSON.stringify([kind, field, value, points]);
  const about = [
    { field: 'source', value: source, name: source },
    { field: 'feed', value: feedId ?? '', name: 'this feed' },
    { field: 'author', value: author ?? '', name: author ?? '' },
    ...tags.slice(0, 3).map((tag) => ({ field: 'tag', value: tag, name: `“${tag.slice(0, 30)}”` })),
  ].filter(({ value }) => value !== '');
  const rules = about.flatMap(({ field, value, name }) => [
    { name: `Mute ${name}`, value: rule('mute', field, value, 0) },
    { name: `Lift ${name} by one point`, value: rule('boost', field, value, 1) },
  ]);
  const words = new URLSearchParams({ field: 'words', value: title.slice(0, 200) });
  return html`<details class="menu"><summary class="button little bare">More</summary><div>
<button class="button" form="${actionForm}" formaction="/articles/${id}/unread">Mark unread
</button><button type="button" class="button needs-script" data-share="${url}">Share its address
</button>${rules.map(
    (one) => html`<button class="button" form="${actionForm}" formaction="/rules/quick"
 name="rule" value="${one.value}">${one.name}</button>`,
  )}<a class="button" href="/reader/rules?${words.toString()}">Mute or lift words…</a>
</div></details>`;
}

/** Ten buttons that rate at once; a pressed one is the user's score, and takes it back. */
function scaleView({ id, title, vote }: ReaderArticle): Html {
  return html`<div class="rate" role="group" aria-label="Rate: ${title}">
<span class="quiet small roomy-only">Your rating</span><div class="scale">
${scores.map(
  (score) => html`<button class="button" form="${actionForm}"
 formaction="/articles/${id}/${score === vote ? 'unvote' : 'vote'}"
 name="score" value="${score}" aria-pressed="${String(score === vote)}"
 aria-label="${score} of 10">${score}</button>`,
)}</div><button class="button bare roomy-only" form="${actionForm}"
 formaction="/articles/${id}/done">Done <kbd>x</kbd></button></div>`;
}

interface Line {
  readonly name: string;
  readonly about: string;
  readonly points: number;
}

/** The points of a score in plain words; the rounded numbers add up to it, too. */
function whyView({ score }: Ranked, explained: Explained): Html {
  const points = new Map<string, number>();
  for (const one of explained.contributions) points.set(one.reason, one.points);
  const of = (...names: readonly string[]) =>
    names.reduce((sum, name) => sum + (points.get(name) ?? 0), 0);
  const words = explained.words.slice(0, 4).map(({ word }) => word);
  const [nearest] = explained.nearest;
  const { source } = explained;
  const named: readonly Line[] = [
    {
      name: 'Topic',
      about: explained.isEnglish
        ? 'sentences that count are marked below'
        : 'of English texts alone; here words and feed tell more',
      points: of('topic'),
    },
    { name: 'Words', about: words.join(', '), points: of('words') },
    {
      name: 'Feed',
      about:
        source.ratings === 0 ? 'nothing of it is rated' : `you gave it ${source.score.toFixed(1)}`,
      points: of('source'),
    },
    {
      name: 'Most alike',
      about: nearest === undefined ? 'nothing yet' : `${nearest.title}, ${nearest.score}`,
      points: of('neighbours'),
    },
    { name: 'Your rating', about: 'counts as it is', points: of('rated') },
  ];
  const start = of('start');
  const lines = named
    .map((line) => ({ ...line, points: shown(line.points) }))
    .filter(({ points }) => points !== 0);
  const sum = lines.reduce((total, line) => total + line.points, shown(start));
  const rest = shown(shown(score.score) - sum);
  if (rest !== 0) lines.push({ name: 'Other', about: 'length, age, rounding', points: rest });
  let at = start;
  const rows = lines.map((line) => {
    const from = at;
    at += line.points;
    return lineView(line, from);
  });
  const low = score.score - score.width;
  const high = score.score + score.width;
  const isGuess = explained.nearest.length === 0;
  return html`<details class="why-box" open><summary><strong>Why ${score.score.toFixed(1)}?</strong>
<span class="quiet">${isGuess ? 'You have rated nothing like it' : 'Its parts add up to the score'}
</span></summary>
<ol class="sum"><li><span>What you give on average</span>${bar('base', 0, start)}
<b class="num">${start.toFixed(1)}</b></li>${rows}
<li class="total"><span>Expected</span><span class="quiet small">8 of 10 of your ratings would be
 from ${Math.max(1, low).toFixed(1)} to ${Math.min(10, high).toFixed(1)}</span>
<b class="num">${score.score.toFixed(1)}</b></li></ol>
${!explained.isEnglish && languageView(of('topic', 'neighbours'))}</details>`;
}

/** The number that is shown for some points. */
function shown(points: number): number {
  return Number(points.toFixed(1));
}

/** A note that a score is less reliable, for languages that the model hardly knows. */
function languageView(points: number): Html {
  const what =
    Math.abs(points) < 0.05
      ? 'Words only: the model that compares meanings knows English best.'
      : 'Not in English, which the model that compares meanings knows best: trust its words more.';
  return html`<p class="quiet small">${what}</p>`;
}

function lineView({ name, about, points }: Line, from: number): Html {
  const kind = points > 0 ? 'up' : 'down';
  const sign = points > 0 ? '+' : '−';
  return html`<li><span>${name} <span class="quiet">${about}</span></span>
${bar(kind, Math.min(from, from + points), Math.abs(points))}
<b class="num">${sign}${Math.abs(points).toFixed(1)}</b></li>`;
}

/** A piece of a bar from 0 to 10 points. */
function bar(kind: string, from: number, points: number): Html {
  const percent = (value: number) => `${(10 * Math.min(10, Math.max(0, value))).toFixed(1)}%`;
  return html`<svg aria-hidden="true"><rect class="track" y="40%" width="100%" height="20%"/>
<rect class="${kind}" x="${percent(from)}" width="${percent(points)}" height="100%" rx="2"/></svg>`;
}

/** The text by paragraphs, with pictures, and with the sentences that count marked. */
function proseOf({ ranked, imagePath }: OpenArticle): HtmlValue {
  const { text: own = '', sharedText: text = own, images = [] } = ranked?.article ?? {};
  if (text === '') {
    return html`<p class="quiet">Its text is not here yet. Open the original to read it.</p>`;
  }
  const sentences = ranked?.explained?.sentences ?? [];
  const counted = sentences.filter(({ points }) => Math.abs(points) >= 0.05);
  const paragraphs = text.split(/\n+/).filter((one) => one.trim() !== '');
  const parts: HtmlValue[] = [];
  let shown = 0;
  let length = 0;
  const addImages = (until: number) => {
    for (; (images[shown]?.at ?? Infinity) <= until; shown += 1) {
      parts.push(imageView(images[shown] as PageImage, imagePath));
    }
  };
  for (const paragraph of paragraphs.slice(0, paragraphsMax)) {
    addImages(length);
    parts.push(html`<p>${marked(paragraph, counted)}</p>`);
    length += textLength(paragraph);
  }
  if (paragraphs.length <= paragraphsMax) addImages(Number.MAX_SAFE_INTEGER);
  return parts;
}

/** A picture, or its text if it cannot be fetched. */
function imageView({ url, alt }: PageImage, imagePath: OpenArticle['imagePath']): Html {
  return html`<figure><img src="${imagePath(url)}" alt="${alt}" loading="lazy" decoding="async">
</figure>`;
}

function marked(paragraph: string, sentences: Explained['sentences']): HtmlValue {
  const plain = paragraph.replace(/\s+/g, ' ').trim();
  const found = sentences
    .map((one) => ({ ...one, at: plain.indexOf(one.text) }))
    .filter(({ at, text }) => at >= 0 && text !== '')
    .sort((one, other) => one.at - other.at);
  const parts: HtmlValue[] = [];
  let end = 0;
  for (const { text, points, at } of found) {
    if (at < end) continue;
    parts.push(plain.slice(end, at));
    const sign = points > 0 ? '+' : '−';
    parts.push(html`<mark class="${points > 0 ? 'raises' : 'lowers'}">${text}
<small>${sign}${Math.abs(points).toFixed(1)}</small></mark>`);
    end = at + text.length;
  }
  parts.push(plain.slice(end));
  return parts;
}
