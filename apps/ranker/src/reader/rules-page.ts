import { type Html, html } from 'spillway-http';
import type { ReaderFeed } from '../storage/feeds.ts';
import type { NewRule, ReaderRule } from '../storage/rules.ts';
import { tokenField } from './frame.ts';
import { ruleLengthMax } from './rule-set.ts';

export interface RulesViewOptions {
  readonly rules: readonly ReaderRule[];
  /** The ids of rules whose pattern takes too long. */
  readonly slow: readonly string[];
  readonly token: string;
  readonly feeds: readonly ReaderFeed[];
  /** The first values of the form. */
  readonly field: string;
  readonly value: string;
}

const fields = [
  { field: 'words', name: 'with all of these words' },
  { field: 'source', name: 'of this site' },
  { field: 'feed', name: 'of this feed' },
  { field: 'author', name: 'of this author' },
  { field: 'tag', name: 'with this tag' },
  { field: 'pattern', name: 'that this regular expression finds' },
] as const;

/** The user's rules, and a form for one more. */
export function rulesView(options: RulesViewOptions): Html {
  const { rules, slow, token, field, value, feeds } = options;
  const choices = fields.map(
    (one) => html`<option value="${one.field}" selected="${one.field === field}">${one.name}
</option>`,
  );
  return html`<h1>Rules</h1>
<p>Rules look at the title, the beginning of the text, and where an article comes from.</p>
<form class="rule" method="post" action="/rules">${tokenField(token)}
<div><label for="kind">What to do</label><select class="input" id="kind" name="kind">
<option value="mute">Mute</option><option value="boost">Boost</option></select></div>
<div><label for="field">with articles</label><select class="input" id="field" name="field">
${choices}</select></div>
<div class="wide"><label for="value">Words, site, feed, author, tag or pattern</label>
<input class="input" id="value" name="value" value="${value}" required list="feed-names"
 maxlength="${ruleLengthMax}"><datalist id="feed-names">
${feeds.map((feed) => html`<option value="${feed.title || feed.url}"></option>`)}</datalist></div>
<div><label for="points">Points, if boosted</label>
<input class="input" id="points" name="points" type="number" min="-9" max="9" step="0.5"
 value="2"></div>
<button class="button main">Add</button></form>
${rules.length === 0 && html`<p class="empty">No rules yet.</p>`}
<ul class="rows">${rules.map(
    (rule) => html`<li><div><strong>${ruleText(rule, feeds)}</strong>
${
  slow.includes(rule.id) &&
  html`<p class="failure">This pattern takes too long, so it is not applied.</p>`
}</div>
<form method="post" action="/rules/${rule.id}/remove">${tokenField(token)}
<button class="button little bare" aria-label="Remove: ${ruleText(rule, feeds)}">Remove</button>
</form></li>`,
  )}</ul>`;
}

/** A rule in words. */
export function ruleText(rule: NewRule, feeds: readonly ReaderFeed[]): string {
  const { kind, field, value, points } = rule;
  const feed = feeds.find(({ id }) => id === value);
  const what = {
    words: `“${value}”`,
    source: value,
    feed: feed === undefined ? 'a feed that is gone' : `the feed ${feed.title || feed.url}`,
    author: value,
    tag: `what is tagged “${value}”`,
    pattern: `/${value}/`,
  }[field];
  if (kind === 'mute') return `Mute ${what}`;
  return `${points > 0 ? 'Boost' : 'Lower'} ${what} by ${Math.abs(points)}`;
}
