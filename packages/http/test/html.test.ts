import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Html, type HtmlValue, html, keyed, raw, safeUrl } from 'spillway-http';

const evil = `<script>alert("it's")</script>&amp;`;
const harmless = '&lt;script&gt;alert(&quot;it&#39;s&quot;)&lt;/script&gt;&amp;amp;';

function says(view: Html, text: string): void {
  assert.equal(String(view), text);
}

/** A template with these strings, for those that are refused. */
function template(...strings: string[]): (...values: HtmlValue[]) => Html {
  const parts = Object.assign([...strings], { raw: strings });
  return (...values) => html(parts, ...values);
}

describe('html', () => {
  it('escapes text, attributes, titles and textareas', () => {
    says(html`<p>${evil}</p>`, `<p>${harmless}</p>`);
    says(html`<p title="${evil}"></p>`, `<p title="${harmless}"></p>`);
    says(html`<p title='${evil}'></p>`, `<p title="${harmless}"></p>`);
    says(html`<p title="a ${evil} b ${evil}"></p>`, `<p title="a ${harmless} b ${harmless}"></p>`);
    says(html`<title>${evil}</title>`, `<title>${harmless}</title>`);
    says(html`<textarea>x${evil}</textarea>`, `<textarea>\nx${harmless}</textarea>`);
    says(html`<p>${'a\r\0\ud800'}</p>`, '<p>a&#13;\ufffd\ufffd</p>');
  });

  it('nests templates and lists, and gives nothing for nothing', () => {
    const items = ['a', '<', null].map((text) => html`<li>${text}</li>`);
    says(html`<ul>${items}</ul>`, '<ul><li>a</li><li>&lt;</li><li></li></ul>');
    says(html`${[1, [2n, ['3', undefined, false]], html`<b>4</b>`]}`, '123<b>4</b>');
    says(html`${null}${undefined}${false}${''}${0}`, '0');
    says(html`${keyed(1, html`<i>${1}</i>`)}`, '<i>1</i>');
    says(html``, '');
  });

  it('leaves an attribute out for nothing, and gives it bare for true', () => {
    const input = (on: HtmlValue) => html`<input name="x" disabled="${on}">`;
    says(input(true), '<input name="x" disabled="">');
    for (const off of [false, null, undefined]) says(input(off), '<input name="x">');
    says(input(''), '<input name="x" disabled="">');
    says(html`<p class="a ${false} b"></p>`, '<p class="a  b"></p>');
  });

  it('keeps what is written in the template as it is', () => {
    const text = `<!doctype html><!-- a < b --><svg viewBox="0 0 1 1"><g/></svg><br><hr />
<script type="module" src="/a.js">if (a < b) "</p>"</script><a href=/x/y hidden>&nbsp;</a>`;
    says(template(text)(), text);
    says(
      html`<a href="/?a=1&amp;b=${'&'}&c=${2}"></a>`,
      '<a href="/?a=1&amp;b=&amp;&amp;c=2"></a>',
    );
  });

  it('does not change when what it was made of does', () => {
    const items: string[] = ['a'];
    const view = html`<p>${items}</p>`;
    items.push('b');
    says(view, '<p>a</p>');
  });

  it('takes HTML as it is from raw, and from nothing else', () => {
    says(html`<p>${raw('<b>&amp;</b>')}</p>`, '<p><b>&amp;</b></p>');
    says(html`<p>${String(html`<b></b>`)}</p>`, '<p>&lt;b&gt;&lt;/b&gt;</p>');
    assert.throws(() => raw('<!--]-->'), /raw: must be without the marks/);
    assert.throws(() => raw('<p data-live>'), /raw: must be without the marks/);
  });

  it('follows addresses that cannot run code only', () => {
    const good = [
      '/a:b',
      'a?b:c',
      '#x:y',
      '',
      'https://a.b',
      'HTTP://a',
      'mailto:a@b',
      'tel:1',
      '//a',
    ];
    for (const url of good) {
      assert.equal(safeUrl(url), url);
      says(html`<a href="${url}"></a>`, `<a href="${url}"></a>`);
    }
    const bad = [
      ...['javascript:x', 'JaVaScRiPt:x', ' javascript:x', 'java\nscript:x', '\x01javascript:x'],
      ...['java\0script:x', 'vbscript:x', 'data:text/html,x', 'file:///x', 'blob:x', 'x:y'],
    ];
    const places = [
      (url: string) => html`<a href="${url}"></a>`,
      (url: string) => html`<svg><a xlink:href='${url}'></a></svg>`,
      (url: string) => html`<form action="${url}"></form>`,
      (url: string) => html`<button formaction="${url}"></button>`,
      (url: string) => html`<iframe SRC="${url}"></iframe>`,
      (url: string) => html`<object data="${url}"></object>`,
      (url: string) => html`<a href="${url.slice(0, 4)}${url.slice(4)}"></a>`,
    ];
    for (const url of bad) {
      assert.equal(safeUrl(url), undefined);
      for (const place of places) assert.throws(() => place(url), /must be relative, or begin/);
    }
    assert.throws(() => html`<a href="javascript:${'x'}"></a>`, /must be relative/);
    assert.throws(() => html`<a href="&#106;avascript:${'x'}"></a>`, /must be relative/);
  });

  const unsafe: readonly (readonly [name: string, strings: readonly string[], why: RegExp])[] = [
    ['an unquoted attribute', ['<p title=', '></p>'], /quote the value in <p>/],
    ['a part of an unquoted attribute', ['<p title=a', '></p>'], /outside of quotes in <p>/],
    ['a name of an attribute', ['<p ', '></p>'], /outside of quotes in <p>/],
    ['the name of an element', ['<', '></p>'], /begins nothing whole/],
    ['a part of the name of an element', ['<p', '></p>'], /outside of quotes in <p>/],
    ['the name of an end tag', ['<p></', '>'], /begins nothing whole/],
    ['a script', ['<script>', '</script>'], /no value in <script>/],
    ['a string in a script', ['<script>let a = "', '";</script>'], /no value in <script>/],
    ['a style sheet', ['<style>', '</style>'], /no value in <style>/],
    ['noscript', ['<noscript><p>', '</p></noscript>'], /no value in <noscript>/],
    ['a template element', ['<template><p>', '</p></template>'], /no value in a <template>/],
    ['an event handler', ['<p onclick="', '"></p>'], /no value in onclick/],
    ['an event handler in capitals', ['<p ONCLICK="a(', ')"></p>'], /no value in onclick/],
    ['a style', ['<p style="width: ', 'px"></p>'], /no value in style/],
    ['srcdoc', ['<iframe srcdoc="', '"></iframe>'], /no value in srcdoc/],
    ['an animation', ['<svg><set to="', '"></set></svg>'], /no value in to of <set>/],
    ['a comment', ['<!-- ', ' -->'], /begins nothing whole/],
    ['a doctype', ['<!doctype ', '>'], /begins nothing whole/],
    ['a table outside of its rows', ['<table>', '</table>'], /write <tbody>/],
  ];
  for (const [name, strings, why] of unsafe) {
    it(`refuses a value as ${name}`, () => {
      assert.throws(() => template(...strings)('x'), why);
    });
  }

  const malformed: readonly (readonly [name: string, text: string, why: RegExp])[] = [
    ['does not close what it opens', '<div><p></p>', /<div> is not closed/],
    ['closes what it did not open', '</div>', /nothing is open/],
    ['closes in the wrong order', '<b><i></b></i>', /<\/b> where <\/i> is due/],
    ['closes what HTML does not', '<div />', /close it with <\/div>/],
    ['ends in a tag', '<div class="', /<div> does not end/],
    ['takes the mark of live pages', '<div data-live></div>', /data-live is taken/],
    ['has a comment like a mark', '<!--[-->', /like a mark/],
    ['has a comment that browsers end early', '<!-- a --!> -->', /with two ends/],
    ['has an odd space in a tag', '<p\u00a0title="x"></p>', /only plain spaces/],
    ['has an odd space in an end tag', '<p></p\u2003>', /only plain spaces/],
    ['has an odd space before a value', '<p title=\v"x"></p>', /only plain spaces/],
    ['has a lone <', 'a < b', /write &lt;/],
  ];
  for (const [name, text, why] of malformed) {
    it(`refuses a template that ${name}`, () => {
      assert.throws(() => template(text)(), why);
    });
  }

  const values: readonly unknown[] = [{}, () => 1, Symbol('x'), new Date(0), new Map()];
  it('refuses what is no text, wherever it stands', () => {
    for (const value of values as HtmlValue[]) {
      assert.throws(() => html`<p>${value}</p>`, /can stand here/);
      assert.throws(() => html`<p title="${value}"></p>`, /can stand here/);
    }
    for (const value of [html`<b></b>`, raw('x'), ['x']]) {
      assert.throws(() => html`<p title="${value}"></p>`, /can stand here/);
      assert.throws(() => html`<title>${value}</title>`, /can stand here/);
    }
    assert.throws(() => html`<p>${true}</p>`, /true: alone in a quoted attribute/);
    assert.throws(() => html`<p title="a${true}"></p>`, /true: alone in a quoted attribute/);
    assert.throws(() => html`<tr>${'x'}</tr>`, /only elements can stand in a table/);
    assert.throws(() => html`<tbody>${['x']}</tbody>`, /only elements can stand in a table/);
  });
});
