import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openBrowser } from 'spillway-fixtures/browser';
import { html, page } from 'spillway-http';
import { Choices } from './fixtures/random-view.ts';

/** Puts the replacement character where HTML cannot express a character. */
function sayable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd');
}

/** Reads back, in the browser, what each page was made of. */
const readBack = `(pages) => pages.map((text) => {
  const parsed = new DOMParser().parseFromString(text, 'text/html');
  const one = (selector) => parsed.querySelector(selector);
  return {
    elements: [...parsed.querySelectorAll('*')].map((element) => element.localName).join(' '),
    text: one('#text').textContent,
    cell: one('td').textContent,
    double: one('#text').title,
    single: one('#text').lang,
    joined: one('#text').className,
    area: one('textarea').defaultValue,
    lines: one('pre').textContent,
    title: parsed.querySelector('title').textContent,
    data: JSON.parse(one('script').textContent),
  };
})`;

describe('html in a browser', () => {
  it('means what it was given, whatever that is made of', async () => {
    const texts = Array.from({ length: 3_000 }, (_, seed) => {
      const choices = new Choices(seed, 0);
      return `${choices.text('a')}${choices.text('b')}`;
    });
    const sources = texts.map((text) => {
      const body = html`<p id="text" title="${text}" lang='${text}' class="x ${text} y">${text}</p>
        <table><tbody>${[html`<tr><td>${text}</td></tr>`]}</tbody></table>
        <textarea>${text}</textarea><pre>${text}</pre>`;
      return String(page({ title: `${text}.`, body, data: { data: { text: sayable(text) } } }));
    });
    await using browser = await openBrowser();
    const tab = await browser.newPage();
    const read = (await tab.evaluate(`(${readBack})(${JSON.stringify(sources)})`)) as object[];
    const elements = 'html head meta title meta script body p table tbody tr td textarea pre';
    for (const [at, text] of texts.entries()) {
      const given = sayable(text);
      assert.deepEqual(read[at], {
        elements,
        text: given,
        cell: given,
        double: given,
        single: given,
        joined: `x ${given} y`,
        area: given,
        lines: given,
        title: `${given}.`,
        data: { text: given },
      });
    }
  });
});
