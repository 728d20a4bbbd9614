import { type Html, html } from 'spillway-http';
import type { ReaderExplanation } from './reader-store.ts';

/** Why an article has its score. */
export function whyView(title: string, why: ReaderExplanation | undefined): Html {
  if (why === undefined) {
    return html`<section class="card why"><h1>${title}</h1>
<p>It has no score yet: its text has not been read, or you have not rated anything.</p>
<p><a href="/reader">Back to the list</a></p></section>`;
  }
  const { score, tasteVersion } = why;
  return html`<section class="card why"><h1>Why ${score.toFixed(1)}?</h1>
<p class="about">${title}</p>
${nearestView(why.nearest)}
${sentencesView(why.sentences)}
${sourceView(why.source)}
<p class="facts">Taste version ${tasteVersion}</p>
<p class="back"><a href="/reader">Back to the list</a></p></section>`;
}

function nearestView(nearest: ReaderExplanation['nearest']): Html {
  return html`<h2>The most similar that you rated</h2>
${nearest.length === 0 && html`<p>None so far.</p>`}
<ul class="nearest">${nearest.map(
    (one) => html`<li><span class="score" data-score="${Math.round(one.score)}">${one.score}</span>
<span>${one.title}</span> <span class="facts">${percent(one.similarity)} alike</span></li>`,
  )}</ul>`;
}

function sentencesView(sentences: ReaderExplanation['sentences']): Html {
  const most = Math.max(1e-6, ...sentences.map(({ weight }) => Math.abs(weight)));
  return html`<h2>The sentences that counted most</h2>
${sentences.length === 0 && html`<p>None stands out.</p>`}
<ul class="sentences">${sentences.map(({ text, weight }) => {
    const side = weight < 0 ? 'lowers' : 'raises';
    return html`<li class="${side}"><meter min="0" max="1"
 value="${(Math.abs(weight) / most).toFixed(2)}" aria-hidden="true"></meter>
<span class="side">${side} it</span> <q>${text}</q></li>`;
  })}</ul>`;
}

function sourceView(source: ReaderExplanation['source']): Html {
  if (source === undefined) return html`<h2>Its source</h2><p>You rated nothing of it so far.</p>`;
  const { host, mean, ratings } = source;
  return html`<h2>Its source</h2><p>You gave ${host} ${mean.toFixed(1)} on average,
over ${ratings === 1 ? '1 rating' : `${ratings} ratings`}.</p>`;
}

function percent(share: number): string {
  return `${Math.round(100 * Math.max(0, share))} %`;
}
