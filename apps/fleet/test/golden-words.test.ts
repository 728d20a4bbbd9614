import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { patterns } from '../src/protocol/patterns.ts';
import { longName, RequestReader, shortName } from '../src/protocol/read-request.ts';
import { timeControlPattern } from '../src/statistics/time-control.ts';
import { runName } from '../src/world/run.ts';
import { info } from './fixtures/fleet-site.ts';
import { golden, parts, unreadPaths } from './fixtures/golden.ts';

const byName = (a: string, b: string) => (a < b ? -1 : 1);

describe('the words of the reference', () => {
  it('accepts and refuses the same texts', () => {
    const { stats, ...texts } = { ...golden.accepts };
    const reader = new RequestReader();
    for (const { stats: one, ok } of stats) {
      const read = () => reader.read({ password: '', worker_info: info(), stats: { ...one } });
      if (ok) assert.ok(read());
      else assert.throws(read, /'stats'/, JSON.stringify(one));
    }
    const expressions: Readonly<Record<string, RegExp>> = {
      tc: timeControlPattern,
      unique_key: patterns.uniqueKey,
      username: patterns.username,
      option_list: patterns.optionList,
      net_name: patterns.netName,
      github_repo: patterns.githubRepo,
      run_id: patterns.runId,
      short_worker_name: patterns.shortWorkerName,
      long_worker_name: patterns.longWorkerName,
      book: patterns.book,
      signature: patterns.signature,
    };
    assert.deepEqual(new Set(Object.keys(expressions)), new Set(Object.keys(texts)));
    for (const [key, expression] of Object.entries(expressions)) {
      for (const candidate of Object.keys(golden.accepts[key])) {
        const accepted = golden.accepts[key][candidate];
        assert.equal(expression.test(candidate), accepted, `${key}: ${candidate}`);
      }
    }
  });

  it('gives workers and runs the same names', () => {
    for (const { in: info, short, long } of golden.names.worker) {
      assert.deepEqual([shortName(info), longName(info)], [short, long]);
    }
    for (const { _id, new_tag, out } of golden.names.run) assert.equal(runName(_id, new_tag), out);
  });

  it('has every key of the file in one part', () => {
    assert.ok(golden._about.length > 0);
    assert.deepEqual(
      Object.values(parts).flat().toSorted(byName),
      Object.keys(golden).toSorted(byName),
    );
  });

  it('leaves no number of its part of the file unread', () => {
    assert.deepEqual(unreadPaths('words'), []);
  });
});
