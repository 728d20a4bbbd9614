import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FastifyRequest } from 'fastify';
import { VirtualClock } from 'spillway/testing';
import { createServer, html, httpError, type LivePageOptions, State } from 'spillway-http';
import { load, setTitle, site, until } from './fixtures/board.ts';
import { EventReader } from './fixtures/event-reader.ts';
import { get, Wire } from './fixtures/wire.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    whose?: string;
  }
}

describe('a live page', () => {
  it('is a whole page, with the address of its changes and the version it shows', async () => {
    const { app, url } = await site();
    await using _app = app;
    const { version, changes } = await load(`${url}/?a=1&b=2`);
    assert.equal(changes, '/_live?a=1&amp;b=2');
    assert.match(version, /^[\w-]{16}$/);
    const head = await fetch(url, { method: 'HEAD' });
    assert.equal(head.status, 200);
    assert.equal((await fetch(`${url}/_live`, { method: 'HEAD' })).status, 404);
    const body = await (await fetch(url)).text();
    assert.match(body, /<script type="module" src="\/_live\/live-client.js"><\/script>/);
  });

  it('names an address of its own host for its changes, however it was asked for', async () => {
    await using server = await createServer({ live: {} });
    server.app.livePage('/:a/:b/:c', {
      states: [],
      view: () => html`<b>here</b>`,
      page: (region) => html`<main>${region}</main>`,
    });
    await server.start();
    const asked = {
      '/a/b/c?d=1': '/a/b/c/_live?d=1',
      'http://evil.example/a/b/c?d=1': '/a/b/c/_live?d=1',
      // A browser would take this one for a host; `/.` does not change the path.
      '//evil.example/c': '/.//evil.example/c/_live',
    };
    for (const [address, changes] of Object.entries(asked)) {
      using wire = await Wire.open(server);
      wire.send(get(address));
      const text = await wire.until('</main>');
      assert.equal(/data-live-url="([^"]*)"/.exec(text)?.[1], changes);
    }
  });

  it('sends nothing but what changed since the version that the browser names', async () => {
    const { app, url, state } = await site();
    await using _app = app;
    const first = await load(url);
    await using early = await EventReader.open(`${url}/_live`, first.version);
    state.update(setTitle('second'));
    const one = await early.next();
    assert.deepEqual(one?.content, [['t', [0], 'second']]);
    state.update((draft) => {
      draft.rows.splice(5, 1);
      draft.rows.unshift('new');
    });
    const two = await early.next();
    const steps = [['l', [2], ['<li><!--[-->new<!--]--></li>', [0, 5], [6, 194]]]];
    assert.deepEqual(two?.content, steps);
    await using late = await EventReader.open(`${url}/_live`, first.version);
    const both = await late.next();
    assert.deepEqual(both?.content, [['t', [0], 'second'], ...steps]);
    assert.equal(both?.version, two?.version);
    assert.ok((both?.length ?? 0) < 150, `${both?.length}`);
  });

  it('sends everything when the version is unknown or forgotten', async () => {
    const { app, url, state } = await site({ rendersMax: 2 });
    await using _app = app;
    const first = await load(url);
    await using stranger = await EventReader.open(`${url}/_live`, 'unknown');
    const all = await stranger.next();
    assert.match(String(all?.content), /^<h1><!--\[-->first<!--\]--><\/h1>/);
    assert.equal(all?.version, first.version);
    state.update(setTitle('second'));
    assert.ok(Array.isArray((await stranger.next())?.content));
    state.update(setTitle('third'));
    assert.ok(Array.isArray((await stranger.next())?.content));
    await using forgotten = await EventReader.open(`${url}/_live`, first.version);
    assert.equal(typeof (await forgotten.next())?.content, 'string');
  });

  it('sends everything when that is shorter, or when it has nothing in common', async () => {
    const state = new State('short');
    const view = () => (state.value === '' ? html`<b>none</b>` : html`<p>${[...state.value]}</p>`);
    const { app, url } = await site({}, { states: [state], view });
    await using _app = app;
    await using reader = await EventReader.open(`${url}/_live`, (await load(url)).version);
    state.update(() => 'shirt');
    assert.deepEqual((await reader.next())?.content, [['t', [0, 2], 'i']]);
    state.update(() => 'pants');
    const all = [...'pants'].map((letter) => `<!--,-->${letter}`).join('');
    assert.equal((await reader.next())?.content, `<p><!--[-->${all}<!--]--></p>`);
    state.update(() => '');
    assert.equal((await reader.next())?.content, '<b>none</b>');
  });

  it('is rendered once for all requests with a key, and only when something changed', async () => {
    const key: LivePageOptions['key'] = (request) => String(request.headers['x-user'] ?? 'all');
    const { app, url, state, renders } = await site({}, { key });
    await using _app = app;
    const { version } = await load(url);
    await load(url);
    const readers = await Promise.all(
      Array.from({ length: 20 }, () => EventReader.open(`${url}/_live`, version)),
    );
    assert.deepEqual(renders, ['all']);
    for (let n = 0; n < 50; n += 1) state.update(setTitle(`title ${n}`));
    const events = await Promise.all(readers.map((reader) => reader.next()));
    for (const event of events) assert.deepEqual(event?.content, [['t', [0], 'title 49']]);
    assert.deepEqual(renders, ['all', 'all']);
    const other = await fetch(url, { headers: { 'x-user': 'ada' } });
    assert.match(await other.text(), /<p><!--\[-->ada<!--\]--><\/p>/);
    assert.deepEqual(renders, ['all', 'all', 'ada']);
    for (const reader of readers) await reader[Symbol.asyncDispose]();
    await until(() => app.liveStats().listeners === 0);
    assert.equal(state.listeners, 0);
    assert.equal(app.liveStats().views, 2);
  });

  it('waits its interval between two changes, and then sends the newest', async () => {
    const clock = new VirtualClock();
    const { app, url, state, renders } = await site({ intervalMs: 50, clock });
    await using _app = app;
    await using reader = await EventReader.open(`${url}/_live`, (await load(url)).version);
    state.update(setTitle('a'));
    assert.deepEqual((await reader.next())?.content, [['t', [0], 'a']]);
    for (const title of ['b', 'c', 'd']) {
      state.update(setTitle(title));
      await clock.advance(16);
    }
    assert.equal(renders.length, 2);
    await clock.advance(2);
    assert.deepEqual((await reader.next())?.content, [['t', [0], 'd']]);
    assert.equal(renders.length, 3);
  });

  it('keeps its route: hooks and config of the page hold for its changes too', async () => {
    const seen: (string | undefined)[] = [];
    const route: LivePageOptions['route'] = {
      config: { whose: 'ada' },
      onRequest: async (request) => {
        seen.push(request.routeOptions.config.whose);
        if (request.headers['x-user'] === undefined) throw httpError('CSRF_REFUSED', 'who?');
      },
    };
    const { app, url } = await site({}, { route });
    await using _app = app;
    assert.equal((await fetch(url)).status, 403);
    assert.equal((await fetch(`${url}/_live`)).status, 403);
    assert.equal((await fetch(url, { headers: { 'x-user': 'ada' } })).status, 200);
    assert.deepEqual(seen, ['ada', 'ada', 'ada']);
    assert.throws(() => app.livePage('/a/*', {} as LivePageOptions), /path: must be without/);
  });

  it('has around it what one request needs, such as a token and a header', async () => {
    const state = new State(1);
    const { app, url } = await site(
      {},
      {
        states: [state],
        view: () => html`<p>${state.value}</p>`,
        page: (view, request, reply) => {
          void reply.header('x-for', String(request.headers['x-who']));
          return html`<main>${view}</main>`;
        },
      },
    );
    await using _app = app;
    const answer = await fetch(url, { headers: { 'x-who': 'me' } });
    assert.equal(answer.headers.get('x-for'), 'me');
    assert.match(await answer.text(), /^<main><div data-live-url/);
  });

  it('gives the permit of its lane back once a browser listens', async () => {
    const held = new Set<string>();
    const onRequest = async (request: FastifyRequest) => {
      held.add(request.url);
      const permit: Disposable = { [Symbol.dispose]: () => held.delete(request.url) };
      Object.assign(request, { permit });
    };
    const { app, url } = await site({}, { route: { onRequest } });
    await using _app = app;
    const { version } = await load(url);
    await using _reader = await EventReader.open(`${url}/_live`, version);
    assert.deepEqual([...held], ['/']);
  });

  it('shows the old version while it cannot be rendered, and says why in the log', async () => {
    let broken = false;
    const state = new State(0);
    const view: LivePageOptions['view'] = () => {
      if (broken) throw new Error('cannot');
      return html`<p>${state.value}</p>`;
    };
    const { app, url } = await site({}, { states: [state], view });
    await using _app = app;
    const errors: unknown[] = [];
    app.log.error = (error: unknown) => errors.push(error);
    await using reader = await EventReader.open(`${url}/_live`, (await load(url)).version);
    broken = true;
    state.update(() => 1);
    await until(() => errors.length > 0);
    assert.equal((await fetch(url)).status, 500);
    broken = false;
    state.update(() => 2);
    assert.deepEqual((await reader.next())?.content, [['t', [0], '2']]);
  });
});
