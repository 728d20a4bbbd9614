import assert from 'node:assert/strict';
import type { Store, StoreCommit } from '../store/store.ts';

/** A store under test, empty at first. */
export interface StoreSubject {
  /** Another handle on the same records, as another process would have. */
  open(): Promise<Store>;
  /** Advances the store's clock by a number of milliseconds. */
  pass(ms: number): Promise<void>;
}

/** One promise that every store keeps. */
export interface StoreCase {
  readonly name: string;
  run(subject: StoreSubject): Promise<void>;
}

type Play = (store: Store, subject: StoreSubject) => Promise<void>;

function storeCase(name: string, play: Play): StoreCase {
  return {
    name,
    async run(subject) {
      await using store = await subject.open();
      await play(store, subject);
    },
  };
}

async function committed(result: Promise<StoreCommit | undefined>): Promise<StoreCommit> {
  const commit = await result;
  assert.ok(commit !== undefined, 'the commit was refused');
  return commit;
}

async function valueIn(store: Store, name: string): Promise<unknown> {
  return (await store.read([name])).records[0]?.value;
}

async function versionIn(store: Store, name: string): Promise<number> {
  return (await store.read([name])).records[0]?.version ?? 0;
}

const misuse = { code: 'ERR_ASSERTION' };
const oddNames = [
  ' ',
  "'",
  '"',
  '%',
  '_',
  '\\',
  '-- ; DROP',
  'ä',
  'a\u0308',
  '日本',
  '💧',
  '\uffff',
  '\u{10ffff}',
  'A',
  'a',
  'x'.repeat(512),
];

const reading: readonly StoreCase[] = [
  storeCase('gives what was committed, in the order asked for', async (store) => {
    const value = { list: [1, 'two', null, true], nested: { text: 'ä💧\u0000"' } };
    const { version, now } = await committed(
      store.commit([
        { name: 'a', value },
        { name: 'b', value: null },
      ]),
    );
    const reading = await store.read(['b', 'none', 'a', 'b']);
    const b = { value: null, version, expiresAt: undefined };
    assert.deepEqual(reading.records, [b, undefined, { ...b, value }, b]);
    assert.ok(reading.now >= now);
  }),
  storeCase('tells the time also when nothing is asked for', async (store) => {
    const { now, records } = await store.read([]);
    assert.ok(Number.isFinite(now));
    assert.deepEqual(records, []);
  }),
  storeCase('reads all records as of one moment', async (store) => {
    const names = ['left', 'right'];
    const set = (value: number) => store.commit(names.map((name) => ({ name, value })));
    await set(0);
    let writing = true;
    const writer = (async () => {
      for (let value = 1; value <= 30; value += 1) await set(value);
      writing = false;
    })();
    do {
      const { records } = await store.read(names);
      assert.equal(records[0]?.value, records[1]?.value);
      assert.equal(records[0]?.version, records[1]?.version);
    } while (writing);
    await writer;
  }),
  storeCase('gives copies only', async (store) => {
    const value = { count: 1 };
    await store.commit([{ name: 'a', value }]);
    value.count = 2;
    const read = (await store.read(['a'])).records[0]?.value as { count: number };
    assert.equal(read.count, 1);
    read.count = 3;
    assert.deepEqual(await valueIn(store, 'a'), { count: 1 });
  }),
  storeCase('lists by prefix, in order, up to a maximum, and nothing removed', async (store) => {
    const names = ['b/2', 'b/\u{10ffff}', 'b/1', 'b/\uffff', 'a', 'b', 'b/%', 'c', 'b0'];
    await store.commit(names.map((name, value) => ({ name, value })));
    await store.commit([{ name: 'b/2' }]);
    const list = async (prefix: string, max: number) =>
      (await store.list(prefix, { max })).map(({ name }) => name);
    assert.deepEqual(await list('b/', 99), ['b/%', 'b/1', 'b/\uffff', 'b/\u{10ffff}']);
    assert.deepEqual(await list('b/', 2), ['b/%', 'b/1']);
    assert.deepEqual(await list('', 2), ['a', 'b']);
    assert.deepEqual(await list('b/\u{10ffff}', 9), ['b/\u{10ffff}']);
    assert.deepEqual(await list('none', 9), []);
    const after = async (name: string) =>
      (await store.list('b/', { max: 2, after: name })).map(({ name }) => name);
    assert.deepEqual(await after('a'), ['b/%', 'b/1']);
    assert.deepEqual(await after('b/1'), ['b/\uffff', 'b/\u{10ffff}']);
    assert.deepEqual(await after('b/\u{10ffff}'), []);
    const [first] = await store.list('a', { max: 1 });
    assert.deepEqual([first?.name, first?.value, first?.expiresAt], ['a', 4, undefined]);
  }),
  storeCase('keeps big values and odd names apart', async (store) => {
    const big = 'ä'.repeat(1_000_000);
    await store.commit(oddNames.map((name, at) => ({ name, value: at })));
    await store.commit([{ name: 'big', value: { big } }]);
    const { records } = await store.read(oddNames);
    assert.deepEqual(
      records.map((record) => record?.value),
      oddNames.map((_, at) => at),
    );
    assert.deepEqual(await valueIn(store, 'big'), { big });
  }),
];

const committing: readonly StoreCase[] = [
  storeCase('changes nothing unless every version is as it should be', async (store) => {
    const { version } = await committed(store.commit([{ name: 'a', value: 1 }]));
    const refused = await store.commit([
      { name: 'new', value: 1 },
      { name: 'a', value: 2, ifVersion: version + 1 },
    ]);
    assert.equal(refused, undefined);
    const { records } = await store.read(['a', 'new']);
    assert.deepEqual(
      records.map((record) => record?.value),
      [1, undefined],
    );
    await committed(
      store.commit([
        { name: 'new', value: 1, ifVersion: 0 },
        { name: 'a', value: 2, ifVersion: version },
      ]),
    );
    assert.equal(await valueIn(store, 'a'), 2);
    assert.equal(await store.commit([{ name: 'new', value: 9, ifVersion: 0 }]), undefined);
  }),
  storeCase('checks without changing', async (store) => {
    const { version } = await committed(store.commit([{ name: 'a', value: 1 }]));
    const guarded = (ifVersion: number) =>
      store.commit([
        { name: 'a', ifVersion, checkOnly: true },
        { name: 'b', value: ifVersion },
      ]);
    await committed(guarded(version));
    assert.equal(await guarded(0), undefined);
    assert.deepEqual([await versionIn(store, 'a'), await valueIn(store, 'a')], [version, 1]);
    assert.equal(await valueIn(store, 'b'), version);
    await committed(store.commit([{ name: 'none', ifVersion: 0, checkOnly: true }]));
    assert.equal(await versionIn(store, 'none'), 0);
  }),
  storeCase('never gives a version twice', async (store, subject) => {
    let last = 0;
    const grow = async (other: Store, ttlMs?: number) => {
      const { version } = await committed(other.commit([{ name: 'a', value: 1, ttlMs }]));
      assert.ok(version > last, `${version} after ${last}`);
      assert.equal(await versionIn(other, 'a'), version);
      last = version;
    };
    await grow(store);
    await committed(store.commit([{ name: 'a' }]));
    assert.equal(await versionIn(store, 'a'), 0);
    await grow(store, 1_000);
    await subject.pass(1_000);
    assert.equal(await versionIn(store, 'a'), 0);
    await grow(store);
    await using other = await subject.open();
    assert.equal(await versionIn(other, 'a'), last);
    await grow(other);
  }),
  storeCase('lets records expire by its own clock', async (store, subject) => {
    const { now, version } = await committed(
      store.commit([
        { name: 'short', value: 1, ttlMs: 60_000 },
        { name: 'long', value: 2, ttlMs: 120_000 },
        { name: 'none', value: 3, ttlMs: 0 },
      ]),
    );
    const before = await store.read(['short', 'long', 'none']);
    assert.deepEqual(
      before.records.map((record) => record?.expiresAt),
      [now + 60_000, now + 120_000, undefined],
    );
    await subject.pass(60_000);
    const after = await store.read(['short', 'long']);
    assert.ok(after.now >= now + 60_000);
    assert.deepEqual(
      after.records.map((record) => record?.value),
      [undefined, 2],
    );
    assert.deepEqual(
      (await store.list('', { max: 9 })).map(({ name }) => name),
      ['long'],
    );
    assert.equal(await store.commit([{ name: 'short', value: 1, ifVersion: version }]), undefined);
    await committed(store.commit([{ name: 'short', value: 4, ifVersion: 0 }]));
    await committed(store.commit([{ name: 'long', value: 5, ifVersion: version }]));
    await subject.pass(120_000);
    assert.deepEqual([await valueIn(store, 'short'), await valueIn(store, 'long')], [4, 5]);
  }),
  storeCase('loses no increment of many at once', async (store, subject) => {
    await using other = await subject.open();
    const increment = async (on: Store): Promise<void> => {
      for (;;) {
        const record = (await on.read(['count'])).records[0];
        const value = Number(record?.value ?? 0) + 1;
        const change = { name: 'count', value, ifVersion: record?.version ?? 0 };
        if ((await on.commit([change])) !== undefined) return;
      }
    };
    const all = Array.from({ length: 20 }, (_, at) => increment(at % 2 === 0 ? store : other));
    await Promise.all(all);
    assert.equal(await valueIn(store, 'count'), 20);
  }),
];

const refusing: readonly StoreCase[] = [
  storeCase('does nothing for one who has left', async (store) => {
    const reason = new Error('gone');
    const signal = AbortSignal.abort(reason);
    await assert.rejects(store.read(['a'], { signal }), reason);
    await assert.rejects(store.commit([{ name: 'a', value: 1 }], { signal }), reason);
    await assert.rejects(store.list('', { max: 1, signal }), reason);
    assert.equal(await versionIn(store, 'a'), 0);
  }),
  storeCase('refuses names that not every database can hold', async (store) => {
    for (const name of ['', 'a\0b', '\ud800', 'x'.repeat(513), 7 as never]) {
      await assert.rejects(store.read([name]), misuse);
      await assert.rejects(store.commit([{ name, value: 1 }]), misuse);
    }
    await assert.rejects(store.list('a\0', { max: 1 }), misuse);
  }),
  storeCase('refuses commits that mean nothing', async (store) => {
    const a = { name: 'a', value: 1 };
    const wrong = [
      [],
      [a, a],
      [{ ...a, ifVersion: -1 }],
      [{ ...a, ifVersion: 1.5 }],
      [{ ...a, ttlMs: -1 }],
      [{ ...a, ttlMs: Number.NaN }],
      [{ ...a, ttlMs: Infinity }],
      [{ name: 'a', checkOnly: true }],
      [{ name: 'a', value: Number.NaN }],
      [{ name: 'a', value: [1n] as never }],
      [{ name: 'a', value: (() => 1) as never }],
      [{ name: 'a', value: { b: [new Map()] } as never }],
      [{ name: 'a', value: [undefined] as never }],
      [{ name: 'a', value: new Date(0) as never }],
    ];
    for (const changes of wrong) await assert.rejects(store.commit(changes), misuse);
    await assert.rejects(store.list('', { max: 1, after: '' }), misuse);
    for (const max of [0, -1, 1.5]) await assert.rejects(store.list('', { max }), misuse);
    assert.equal(await versionIn(store, 'a'), 0);
  }),
];

/** Every promise of a {@link Store}: `for (const { name, run } of storeCases) it(name, …)`. */
export const storeCases: readonly StoreCase[] = [...reading, ...committing, ...refusing];
