import assert from 'node:assert/strict';
import { systemClock } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import type { Store, StoreChange, StoreCommit, StoreNews } from '../store/store.ts';
import { pause } from '../wait/wait-queue.ts';
import { decisionsAgree } from './decision-case.ts';

/** A store under test, empty at first. */
export interface StoreSubject {
  /** Another handle on the same records, as another process would have. */
  open(): Promise<Store>;
  /** Advances the store's clock by a number of milliseconds. */
  pass(ms: number): Promise<void>;
}

/** One guarantee that every store gives. */
export interface StoreCase {
  readonly name: string;
  run(subject: StoreSubject): Promise<void>;
}

type Play = (store: Store, subject: StoreSubject) => Promise<void>;

async function committed(store: Store, ...changes: StoreChange[]): Promise<StoreCommit> {
  const commit = await store.commit(changes);
  assert.ok(commit !== undefined, 'the commit was refused');
  return commit;
}

async function refused(store: Store, ...changes: StoreChange[]): Promise<void> {
  assert.equal(await store.commit(changes), undefined);
}

async function holds(store: Store, values: Readonly<Record<string, Json | undefined>>) {
  const { records } = await store.read(Object.keys(values));
  const found = records.map((record) => record?.value);
  assert.deepEqual(found, Object.values(values));
}

async function lists(store: Store, ...[prefix, max, after, expected]: Listing): Promise<void> {
  const found = await store.list(prefix, { max, after });
  assert.deepEqual(
    found.map(({ name }) => name),
    expected,
  );
}

type Listing = [prefix: string, max: number, after: string | undefined, expected: string[]];

async function versionIn(store: Store, name: string): Promise<number> {
  return (await store.read([name])).records[0]?.version ?? 0;
}

const misuse = { code: 'ERR_ASSERTION' };
const words = ' |\'|"|%|_|\\|-- ; DROP|ä|a\u0308|日本|💧|\uffff|\u{10ffff}|A|a'.split('|');
const oddNames = [...words, 'x'.repeat(512)];

const reading: Readonly<Record<string, Play>> = {
  async 'gives what was committed, in the order asked for'(store) {
    const value = { list: [1, 'two', null, true], nested: { text: 'ä💧\u0000"' } };
    const changes = [
      { name: 'a', value },
      { name: 'b', value: null },
    ];
    const { version, now } = await committed(store, ...changes);
    const reading = await store.read(['b', 'none', 'a', 'b']);
    const b = { value: null, version, expiresAt: undefined };
    assert.deepEqual(reading.records, [b, undefined, { ...b, value }, b]);
    assert.ok(reading.now >= now);
  },
  async 'tells the time also when nothing is asked for'(store) {
    const { now, records } = await store.read([]);
    assert.ok(Number.isFinite(now));
    assert.deepEqual(records, []);
  },
  async 'reads all records as of one moment'(store) {
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
  },
  async 'gives copies only'(store) {
    const value = { count: 1 };
    await store.commit([{ name: 'a', value }]);
    value.count = 2;
    const read = (await store.read(['a'])).records[0]?.value as { count: number };
    assert.equal(read.count, 1);
    read.count = 3;
    await holds(store, { a: { count: 1 } });
  },
  async 'lists by prefix, in order, up to a maximum, and nothing removed'(store) {
    const names = ['b/2', 'b/\u{10ffff}', 'b/1', 'b/\uffff', 'a', 'b', 'b/%', 'c', 'b0'];
    await store.commit(names.map((name, value) => ({ name, value })));
    await store.commit([{ name: 'b/2' }]);
    await lists(store, 'b/', 99, undefined, ['b/%', 'b/1', 'b/\uffff', 'b/\u{10ffff}']);
    await lists(store, 'b/', 2, undefined, ['b/%', 'b/1']);
    await lists(store, '', 2, undefined, ['a', 'b']);
    await lists(store, 'b/\u{10ffff}', 9, undefined, ['b/\u{10ffff}']);
    await lists(store, 'none', 9, undefined, []);
    await lists(store, 'b/', 2, 'a', ['b/%', 'b/1']);
    await lists(store, 'b/', 2, 'b/1', ['b/\uffff', 'b/\u{10ffff}']);
    await lists(store, 'b/', 2, 'b/\u{10ffff}', []);
    const [first] = await store.list('a', { max: 1 });
    assert.deepEqual([first?.name, first?.value, first?.expiresAt], ['a', 4, undefined]);
  },
  async 'keeps big values and odd names apart'(store) {
    const big = 'ä'.repeat(1_000_000);
    await store.commit(oddNames.map((name, at) => ({ name, value: at })));
    await store.commit([{ name: 'big', value: { big } }]);
    await holds(store, Object.fromEntries(oddNames.map((name, at) => [name, at])));
    await holds(store, { big: { big } });
  },
};

const committing: Readonly<Record<string, Play>> = {
  async 'changes nothing unless every version is as it should be'(store) {
    const { version } = await committed(store, { name: 'a', value: 1 });
    const a = { name: 'a', value: 2 };
    await refused(store, { name: 'new', value: 1 }, { ...a, ifVersion: version + 1 });
    await holds(store, { a: 1, new: undefined });
    const fresh = { name: 'new', value: 1, ifVersion: 0 };
    await committed(store, fresh, { ...a, ifVersion: version });
    await holds(store, { a: 2 });
    await refused(store, fresh);
  },
  async 'checks without changing'(store) {
    const { version } = await committed(store, { name: 'a', value: 1 });
    const guarded = (ifVersion: number): StoreChange[] => [
      { name: 'a', ifVersion, checkOnly: true },
      { name: 'b', value: ifVersion },
    ];
    await committed(store, ...guarded(version));
    await refused(store, ...guarded(0));
    assert.equal(await versionIn(store, 'a'), version);
    await holds(store, { a: 1, b: version });
    await committed(store, { name: 'none', ifVersion: 0, checkOnly: true });
    assert.equal(await versionIn(store, 'none'), 0);
  },
  async 'never gives a version twice'(store, subject) {
    let last = 0;
    const grow = async (other: Store, ttlMs?: number) => {
      const { version } = await committed(other, { name: 'a', value: 1, ttlMs });
      assert.ok(version > last, `${version} after ${last}`);
      assert.equal(await versionIn(other, 'a'), version);
      last = version;
    };
    await grow(store);
    await committed(store, { name: 'a' });
    assert.equal(await versionIn(store, 'a'), 0);
    await grow(store, 1_000);
    await subject.pass(1_000);
    assert.equal(await versionIn(store, 'a'), 0);
    await grow(store);
    await using other = await subject.open();
    assert.equal(await versionIn(other, 'a'), last);
    await grow(other);
  },
  async 'lets records expire by its own clock'(store, subject) {
    const short = { name: 'short', value: 1, ttlMs: 60_000 };
    const long = { name: 'long', value: 2, ttlMs: 120_000 };
    const none = { name: 'none', value: 3, ttlMs: 0 };
    const { now, version } = await committed(store, short, long, none);
    const { records } = await store.read(['short', 'long', 'none']);
    const ends = records.map((record) => record?.expiresAt);
    assert.deepEqual(ends, [now + 60_000, now + 120_000, undefined]);
    await subject.pass(60_000);
    assert.ok((await store.read([])).now >= now + 60_000);
    await holds(store, { short: undefined, long: 2 });
    await lists(store, '', 9, undefined, ['long']);
    await refused(store, { name: 'short', value: 1, ifVersion: version });
    await committed(store, { name: 'short', value: 4, ifVersion: 0 });
    await committed(store, { name: 'long', value: 5, ifVersion: version });
    await subject.pass(120_000);
    await holds(store, { short: 4, long: 5 });
  },
  async 'calls the watchers of a name that changes, if it can'(store, subject) {
    const heard: StoreNews[] = [];
    let calls = 0;
    using watch = store.watch?.(['watched'], (news) => {
      calls += 1;
      if (news !== undefined) heard.push(news);
    });
    if (watch === undefined) return;
    await using other = await subject.open();
    const told = new Map<number, string>();
    // On a busy machine watching may begin only after seconds.
    for (let value = 0; calls < 3 && value < 6_000; value += 1) {
      const text = `ä${value}`;
      const { version } = await committed(other, { name: 'watched', value, news: text });
      told.set(version, text);
      await pause(systemClock, 10);
    }
    assert.ok(calls >= 3, 'nobody was called back');
    for (const { version, text } of heard) assert.equal(text, told.get(version));
  },
  async 'loses no increment of many at once'(store, subject) {
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
    await holds(store, { count: 20 });
  },
};

/** Changes that every store refuses, though each names a record and is partly valid. */
const wrongChanges: readonly Partial<Record<keyof StoreChange, unknown>>[] = [
  { value: 1, ifVersion: -1 },
  { value: 1, ifVersion: 1.5 },
  { value: 1, ttlMs: -1 },
  { value: 1, ttlMs: Number.NaN },
  { value: 1, ttlMs: Infinity },
  { checkOnly: true },
  { value: Number.NaN },
  { value: [1n] },
  { value: () => 1 },
  { value: { b: [new Map()] } },
  { value: [undefined] },
  { value: new Date(0) },
];

const refusing: Readonly<Record<string, Play>> = {
  async 'does nothing for one who has left'(store) {
    const reason = new Error('gone');
    const signal = AbortSignal.abort(reason);
    await assert.rejects(store.read(['a'], { signal }), reason);
    await assert.rejects(store.commit([{ name: 'a', value: 1 }], { signal }), reason);
    await assert.rejects(store.list('', { max: 1, signal }), reason);
    assert.equal(await versionIn(store, 'a'), 0);
  },
  async 'refuses names that not every database can hold'(store) {
    for (const name of ['', 'a\0b', '\ud800', 'x'.repeat(513), 7 as never]) {
      await assert.rejects(store.read([name]), misuse);
      await assert.rejects(store.commit([{ name, value: 1 }]), misuse);
    }
    await assert.rejects(store.list('a\0', { max: 1 }), misuse);
  },
  async 'refuses commits that mean nothing'(store) {
    const a = { name: 'a', value: 1 };
    await assert.rejects(store.commit([]), misuse);
    await assert.rejects(store.commit([a, a]), misuse);
    for (const wrong of wrongChanges) {
      await assert.rejects(store.commit([{ name: 'a', ...wrong } as StoreChange]), misuse);
    }
    await assert.rejects(store.list('', { max: 1, after: '' }), misuse);
    for (const max of [0, -1, 1.5]) await assert.rejects(store.list('', { max }), misuse);
    assert.equal(await versionIn(store, 'a'), 0);
  },
};

/** Every guarantee of a {@link Store}: `for (const { name, run } of storeCases) it(name, …)`. */
export const storeCases: readonly StoreCase[] = Object.entries({
  ...reading,
  ...committing,
  ...refusing,
  'makes each decision as its reference does, for a seed': decisionsAgree,
}).map(([name, play]) => ({
  name,
  async run(subject) {
    await using store = await subject.open();
    await play(store, subject);
  },
}));
