import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Browser, Page } from 'playwright-core';
import { openBrowser } from 'spillway-fixtures/browser';
import { type Html, html, keyed, live, liveText, page, pages, patch } from 'spillway-http';
import { Choices, view } from './fixtures/random-view.ts';

/** One view after another, and the patch that leads there (null: nothing in common). */
interface Chain {
  readonly texts: readonly string[];
  readonly patches: readonly (string | null)[];
}

function chain(views: readonly Html[]): Chain {
  const patches = views.slice(1).map((to, at) => {
    return JSON.stringify(patch(views[at] as Html, to)) ?? null;
  });
  return { texts: views.map(liveText), patches };
}

describe('a patch in a browser', () => {
  let browser: Browser;
  let app: FastifyInstance;
  let tab: Page;

  before(async () => {
    app = Fastify();
    await app.register(pages);
    await app.register(live);
    app.get('/', async () => page({ title: 'empty', body: html`<div id="region"></div>` }));
    const script = await readFile(new URL('fixtures/patch-page.js', import.meta.url), 'utf8');
    app.get('/patch-page.js', (_request, reply) => reply.type('text/javascript').send(script));
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    browser = await openBrowser();
    tab = await browser.newPage();
    await tab.goto(url);
  });

  after(async () => {
    await browser?.close();
    await app.close();
  });

  it('makes of any view any other, as if that had been loaded', async () => {
    const chains = Array.from({ length: 200 }, (_, seed) => {
      const steps = Array.from({ length: 17 }, (_, step) => new Choices(seed, step));
      return chain(steps.map((choices) => view(choices, 'top', 2)));
    });
    const patches = chains.flatMap((one) => one.patches);
    assert.equal(patches.length, 3_200);
    assert.ok(patches.filter((one) => one !== null).length > 2_500);
    const wrong = await tab.evaluate(async (all) => {
      const { follow } = await import('/patch-page.js' as string);
      return follow(all);
    }, chains);
    assert.deepEqual(wrong, []);
  });

  it('keeps the elements of all keys that stay, wherever they go', async () => {
    const lists = ['abcde', 'ebcda', 'xabcdey', 'acbd', '', 'dab', 'bdac'].map((keys) => {
      const items = [...keys].map((key) => keyed(key, html`<li>${key}</li>`));
      return html`<ul>${items}</ul>`;
    });
    const { texts, patches } = chain(lists);
    const replaced = await tab.evaluate(
      async ([all, steps]) => {
        const { replacedRows } = await import('/patch-page.js' as string);
        return replacedRows(all, steps);
      },
      [texts, patches] as const,
    );
    assert.deepEqual(replaced, [[], ['x', 'y'], [], [], ['d', 'a', 'b'], ['c']]);
  });

  it('that is a whole view keeps the elements that are in both', async () => {
    const pairs = [
      ['<input><p>a</p>', '<p>new</p><input value="1"><p>a</p>'],
      ['<h1>a</h1><p>b</p><input>', '<input>'],
      ['<div><b>a</b><input></div>', '<div class="x"><i>new</i><b>b</b><input></div><hr>'],
      ['a<!--[-->b<!--]--><input>', '<!--[--><u>c</u><!--]--><input>'],
    ] as const;
    for (const [from, to] of pairs) {
      const isKept = await tab.evaluate(
        async ([before, after]) => {
          const { keepsInput } = await import('/patch-page.js' as string);
          return keepsInput(before, after);
        },
        [from, to] as const,
      );
      assert.equal(isKept, true, `${from} to ${to}`);
    }
  });
});
