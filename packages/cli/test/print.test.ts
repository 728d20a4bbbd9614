import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { table } from 'spillway-cli';

const rows = [
  { name: 'a', count: 5, ready: true, note: null },
  { name: 'long', count: 1200, ready: false, note: 'yes' },
];

describe('a table', () => {
  it('has a title for each key, and a dash for nothing', () => {
    assert.equal(
      table(rows, 'none'),
      ['name  count  ready  note', 'a     5      yes    -', 'long  1200   no     yes'].join('\n'),
    );
  });

  it('says so when there is nothing', () =>
    assert.equal(table([], 'Nothing yet.'), 'Nothing yet.'));

  it('writes values as it is told, numbers at their right edge', () => {
    const cell = (value: unknown) => `<${value}>`;
    const shown = rows.map(({ name, count }) => ({ name, count }));
    assert.equal(
      table(shown, '', { cell, alignsNumbers: true }),
      ['name     count', '<a>        <5>', '<long>  <1200>'].join('\n'),
    );
  });
});
