import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { openBrowser } from 'spillway-fixtures/browser';
import { html, keyed, State } from 'spillway-http';
import { setTitle, site } from './fixtures/board.ts';

/** Counts the bytes that a tab gets from here on. */
async function countBytes(tab: Page): Promise<{ readonly bytes: number }> {
  const counter = { bytes: 0 };
  const session = await tab.context().newCDPSession(tab);
  session.on('Network.dataReceived', ({ dataLength }) => {
    counter.bytes += dataLength;
  });
  await session.send('Network.enable');
  return counter;
}

/** A server in a process of its own; killed when it is disposed. */
class Server implements AsyncDisposable {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, url: string) {
    this.#process = process;
    this.url = url;
  }

  static async start(path: string, port = '0'): Promise<Server> {
    const program = join(import.meta.dirname, 'fixtures', 'live-server.ts');
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    for (;;) {
      const child = spawn(process.execPath, [program, path, port], { env, stdio: [...stdio] });
      assert.ok(child.stdout !== null);
      const line = once(createInterface(child.stdout), 'line');
      const [url] = await Promise.race([line, once(child, 'exit').then(() => [])]);
      if (url !== undefined) return new Server(child, url);
      // Between two servers another process may have this port for a moment.
      assert.notEqual(port, '0', 'the server did not start');
    }
  }

  async add(item: string): Promise<void> {
    const body = new URLSearchParams({ item });
    const answer = await fetch(this.url, { method: 'POST', body, redirect: 'manual' });
    assert.equal(answer.status, 303);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#process.kill('SIGKILL')) return;
    await once(this.#process, 'close');
  }
}

describe('a live page in a browser', () => {
  let browser: Browser;

  before(async () => {
    browser = await openBrowser();
  });

  after(() => browser?.close());

  const text = (tab: Page, selector: string) => tab.locator(selector).first().innerText();
  const shows = (tab: Page, wanted: string) =>
    tab.getByText(wanted, { exact: true }).first().waitFor();

  it('shows each change with a message of a few bytes', async () => {
    const { app, url, state } = await site();
    await using _app = app;
    const tab = await browser.newPage();
    await tab.goto(url);
    await tab.waitForFunction('performance.getEntriesByType("resource").length >= 2');
    state.update(setTitle('begin'));
    await shows(tab, 'begin');
    const counter = await countBytes(tab);
    state.update(setTitle('second'));
    await shows(tab, 'second');
    state.update((draft) => {
      draft.rows.splice(100, 1, 'row <new>');
      draft.rows.push(draft.rows.shift() as string);
    });
    await shows(tab, 'row <new>');
    const rows = await tab.locator('li').allInnerTexts();
    assert.deepEqual(rows, state.value.rows);
    const all = (await (await fetch(url)).text()).length;
    assert.ok(counter.bytes > 100 && counter.bytes < 400, `${counter.bytes} bytes`);
    assert.ok(all > 8_000, `${all} bytes`);
    await tab.close();
  });

  it('brings browsers that show different versions to the same one', async () => {
    const { app, url, state } = await site();
    await using _app = app;
    const [early, late] = [await browser.newPage(), await browser.newPage()];
    await late.route('**/_live', (route) => route.abort());
    await Promise.all([early.goto(url), late.goto(url)]);
    state.update(setTitle('second'));
    await shows(early, 'second');
    assert.equal(await text(late, 'h1'), 'first');
    const counter = await countBytes(late);
    await late.unroute('**/_live');
    await shows(late, 'second');
    assert.ok(counter.bytes < 100, `${counter.bytes} bytes`);
    state.update(setTitle('third'));
    await Promise.all([shows(early, 'third'), shows(late, 'third')]);
    await Promise.all([early.close(), late.close()]);
  });

  it('keeps focus, selection, what was typed and where it is scrolled', async () => {
    const state = new State(['b', 'c']);
    const view = () => html`<p>${state.value.length}</p>
      <ol>${state.value.map((key) => html`<li>${key}</li>`)}</ol>
      <div id="far">${state.value.map(() => html`<br>`)}</div>
      <input id="field" value="${state.value.join('')}"><textarea>${state.value[0]}</textarea>`;
    const { app, url } = await site({}, { states: [state], view });
    await using _app = app;
    const tab = await browser.newPage({ viewport: { width: 300, height: 60 } });
    await tab.goto(url);
    await tab.locator('textarea').fill('my own text');
    await tab.locator('#field').fill('typing');
    const look = `(() => {
      const field = document.querySelector('#field');
      const isFocused = document.activeElement === field;
      const { value, selectionStart, selectionEnd } = field;
      const area = document.querySelector('textarea').value;
      return [isFocused, value, selectionStart, selectionEnd, area, scrollY > 0];
    })()`;
    await tab.evaluate("document.querySelector('#field').setSelectionRange(2, 4)");
    const before = await tab.evaluate(look);
    state.update((draft) => ['new', ...draft]);
    await shows(tab, 'new');
    assert.deepEqual(before, [true, 'typing', 2, 4, 'my own text', true]);
    assert.deepEqual(await tab.evaluate(look), before);
    assert.equal(await tab.locator('#field').getAttribute('value'), 'newbc');
    await tab.close();
  });

  for (const canMove of [true, false]) {
    const how = canMove ? 'without its noticing' : 'also in browsers that cannot move elements';
    it(`keeps the focus in an item that moves, ${how}`, async () => {
      const state = new State([1, 2, 3, 4]);
      const item = (n: number) => keyed(n, html`<li id="i${n}"><input value="${n}"></li>`);
      const view = () => html`<ul>${state.value.map(item)}</ul>`;
      const { app, url } = await site({}, { states: [state], view });
      await using _app = app;
      const tab = await browser.newPage();
      if (!canMove) await tab.addInitScript('delete Element.prototype.moveBefore');
      await tab.goto(url);
      await tab.locator('#i4 input').fill('mine');
      const count = "addEventListener('blur', () => blurs++, true)";
      await tab.evaluate(`window.blurs = 0; ${count}`);
      state.update(() => [4, 1, 2, 3]);
      await tab.waitForFunction("document.querySelector('li').id === 'i4'");
      const look = "[document.activeElement === document.querySelector('#i4 input'), blurs > 0]";
      assert.deepEqual(await tab.evaluate(look), [true, !canMove]);
      assert.equal(await tab.locator('#i4 input').inputValue(), 'mine');
      await tab.close();
    });
  }

  it('shows the whole view again where browsers parse HTML otherwise than written', async () => {
    const state = new State(1);
    const view = () => html`<p>${html`<div>${state.value}</div>`}</p>`;
    const { app, url } = await site({}, { states: [state], view });
    await using _app = app;
    const tab = await browser.newPage();
    await tab.goto(url);
    for (const n of [2, 3]) {
      state.update(() => n);
      await shows(tab, String(n));
    }
    await tab.close();
  });

  it('comes back to a server that was killed, and keeps what was typed', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-live-'));
    const path = join(folder.path, 'list.json');
    const tab = await browser.newPage();
    const complaints: string[] = [];
    let url = '';
    {
      await using server = await Server.start(path);
      url = server.url;
      await tab.goto(url);
      await server.add('eggs');
      await shows(tab, 'eggs');
      await tab.locator('#note').fill('my note');
      await tab.evaluate('window.isTheSamePage = true');
    }
    tab.on('console', (message) => complaints.push(message.text()));
    // So that the new server has never rendered the version that the browser shows.
    await tab.route('**/_live', (route) => route.abort());
    await using server = await Server.start(path, new URL(url).port);
    await server.add('cheese');
    await tab.unroute('**/_live');
    await shows(tab, '4 things');
    assert.deepEqual(await tab.locator('li').allInnerTexts(), ['cheese', 'eggs', 'milk', 'bread']);
    assert.equal(await tab.evaluate('window.isTheSamePage'), true);
    assert.equal(await tab.locator('#note').inputValue(), 'my note');
    await server.add('salt');
    await shows(tab, '5 things');
    const own = complaints.filter((complaint) => !/ERR_|Failed to load/.test(complaint));
    assert.deepEqual(own, []);
    await tab.close();
  });

  it('is a plain page with a form that works where there is no script', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-live-'));
    await using server = await Server.start(join(folder.path, 'list.json'));
    const context = await browser.newContext({ javaScriptEnabled: false });
    const tab = await context.newPage();
    await tab.goto(server.url);
    assert.deepEqual(await tab.locator('li').allInnerTexts(), ['milk', 'bread']);
    await tab.locator('[name=item]').fill('a < b');
    await tab.locator('button').click();
    await shows(tab, 'a < b');
    assert.equal(await text(tab, 'h1'), '3 things');
    assert.equal(tab.url(), `${server.url}/`);
    await context.close();
  });
});
