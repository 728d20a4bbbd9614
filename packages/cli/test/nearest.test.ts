import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { didYouMean, nearest } from 'spillway-cli';

describe('nearest', () => {
  it('finds the known name that is most like a wrong one, however it is written', () => {
    const known = ['port', 'host', 'operatorToken'];
    assert.equal(nearest('prot', known), 'port');
    assert.equal(nearest('HOTS', known), 'host');
    assert.equal(nearest('operator_tokn', known), 'operatorToken');
    assert.equal(nearest('operator-token', known), 'operatorToken');
  });

  it('finds nothing for a name that is like none, or too long to be compared', () => {
    assert.equal(nearest('elephant', ['port']), undefined);
    assert.equal(nearest('x'.repeat(101), ['x'.repeat(101)]), undefined);
    assert.equal(nearest('port', []), undefined);
  });

  it('ends a complaint with a question, or with nothing', () => {
    assert.equal(didYouMean('prot', ['port']), '; did you mean port?');
    assert.equal(didYouMean('elephant', ['port']), '');
  });
});
