import { type Html, html } from 'spillway-http';
import type { ReaderRule } from '../storage/rules.ts';
import { tokenField } from './frame.ts';
import { ruleLengthMax } from './rule-book.ts';

export interface RulesViewOptions {
  readonly rules: readonly ReaderRule[];
  /** The ids of rules whose pattern takes too long. */
  readonly slow: readonly string[];
  readonly token: string;
  /** The first values of the form. */
  readonly field: string;
  readonly value: string;
}

const fields = [
  { field: 'words', name: 'with all of these words' },
  { field: 'source', name: 'of this site' },
  { field: 'feed', name: 'of this feed (its number)' },
  { field: 'author', name: 'of this author' },
  { field: 'pattern', name: 'that this regular expression finds' },
] as const;

/** The user's rules, and a form for one more. */
export function rulesView({ rules, slow, token, field, value }: RulesViewOptions): Html {
  const options = fields.map(
    (one) => html`<option value="${one.field}" selected="${one.field === field}">${one.name}
</option>`,
  );
  return html`<h1>Rules</h1>
<p>Rules look at the title, the beginning of the text and the site of an article.</p>
<form class="row rule" method="post" action="/reader/rules">${tokenField(token)}
<div><label for="kind">What to do</label> <select class="input" id="kind" name="kind">
<option value="mute">Mute</option><option value="boost">Boost</option></select>
<label for="field">articles</label> <select class="input" id="field"
 name="field">${options}</select></div>
<div><label class="hidden" for="value">Words, site or pattern</label>
<input class="input" id="value" name="value" value="${value}" required maxlength="${ruleLengthMax}"
 placeholder="Words, site or pattern">
<label for="points">by</label>
<input class="input" id="points" name="points" type="number" min="-9" max="9" step="0.5" value="2"
 aria-describedby="points-help"> <span id="points-help">points, if boosted</span>
<button class="button main">Add</button></div></form>
${rules.length === 0 && html`<p class="empty">No rules yet.</p>`}
<ul class="rows">${rules.map(
    (rule) => html`<li><div><strong>${ruleText(rule)}</strong>
${
  slow.includes(rule.id) &&
  html`<p class="failure">This pattern takes too long, so it is not applied.</p>`
}</div>
<form method="post" action="/reader/rules/${rule.id}/remove">${tokenField(token)}
<button class="button little bare" aria-label="Remove: ${ruleText(rule)}">Remove</button>
</form></li>`,
  )}</ul>`;
}

/** A rule in words. */
export function ruleText({ kind, field, value, points }: ReaderRule): string {
  const what = {
    words: `“${value}”`,
    source: value,
    feed: `feed ${value}`,
    author: value,
    pattern: `/${value}/`,
  }[field];
  if (kind === 'mute') return `Mute ${what}`;
  return `${points > 0 ? 'Boost' : 'Lower'} ${what} by ${Math.abs(points)}`;
}
