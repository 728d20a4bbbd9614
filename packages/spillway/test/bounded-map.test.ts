import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BoundedMap, type Random } from 'spillway';
import { explore } from 'spillway/testing';

const keys = (map: { keys(): Iterable<string> }) => [...map.keys()].join('');

describe('BoundedMap', () => {
  it('is an LRU cache by default: reading keeps an entry', () => {
    const map = new BoundedMap<string, number>({ countMax: 3 });
    for (const key of 'abc') map.set(key, 1);
    assert.equal(map.get('a'), 1);
    map.set('d', 1);
    assert.equal(keys(map), 'cad');
    assert.deepEqual([map.get('b'), map.has('b'), map.size], [undefined, false, 3]);
  });

  it('lets the oldest go first if it is told so, however often that is read', () => {
    const map = new BoundedMap<string, number>({ countMax: 2, first: 'oldest' });
    map.set('a', 1);
    map.set('b', 1);
    map.get('a');
    map.set('c', 1);
    assert.equal(keys(map), 'bc');
    map.set('b', 2);
    assert.equal(keys(map), 'cb');
  });

  it('keeps to a number of bytes, and does not keep what is larger than that', () => {
    const map = new BoundedMap<string, string>({
      countMax: 9,
      bytesMax: 10,
      bytesOf: (value) => value.length,
    });
    map.set('a', '1234');
    map.set('b', '1234');
    map.set('a', '12');
    assert.deepEqual([map.bytes, keys(map)], [6, 'ba']);
    map.set('c', '123456');
    assert.deepEqual([map.bytes, keys(map)], [8, 'ac']);
    map.set('c', '12345678901');
    assert.deepEqual([map.bytes, keys(map)], [2, 'a']);
    map.clear();
    assert.deepEqual([map.bytes, map.size], [0, 0]);
  });

  it('needs to know the size of an entry if bytes are bounded', () => {
    const options = { countMax: 1, bytesMax: 1 };
    assert.throws(() => new BoundedMap(options), /BoundedMap: bytesOf: must be a function/);
    const sizes = { countMax: 9, bytesMax: 9, bytesOf: (value: string) => Number(value) };
    const map = new BoundedMap<string, string>(sizes);
    map.set('a', '1');
    assert.throws(
      () => map.set('b', 'NaN'),
      /BoundedMap: bytesOf: must be a number from 0, got NaN/,
    );
    assert.deepEqual([map.get('a'), map.bytes], ['1', 1], 'a size that is none would drop all');
  });

  it('is what a slow list would be, on any seed', async () => {
    await explore(300, play);
  });
});

async function play(random: Random): Promise<void> {
  const pick = (max: number) => Math.floor(random() * max);
  const countMax = 1 + pick(6);
  const bytesMax = 1 + pick(30);
  const isLru = random() < 0.5;
  const first = isLru ? 'least recently used' : 'oldest';
  const map = new BoundedMap<string, number>({ countMax, bytesMax, first, bytesOf: (n) => n });
  let list: [string, number][] = [];
  const touch = (key: string) => {
    const entry = list.find(([known]) => known === key);
    if (entry !== undefined) list = [...list.filter((one) => one !== entry), entry];
  };
  const bytes = () => list.reduce((sum, [, value]) => sum + value, 0);
  for (let at = 0; at < 80; at += 1) {
    const key = String(pick(8));
    const chance = random();
    if (chance < 0.5) {
      const value = pick(12);
      map.set(key, value);
      list = list.filter(([known]) => known !== key);
      if (value <= bytesMax) list.push([key, value]);
      while (list.length > countMax || bytes() > bytesMax) list.shift();
    } else if (chance < 0.9) {
      assert.equal(map.get(key), list.find(([known]) => known === key)?.[1]);
      if (isLru) touch(key);
    } else {
      assert.equal(
        map.delete(key),
        list.some(([known]) => known === key),
      );
      list = list.filter(([known]) => known !== key);
    }
    assert.deepEqual([...map], list);
    assert.deepEqual([map.bytes, map.size], [bytes(), list.length]);
  }
}
