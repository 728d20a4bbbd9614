import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { packTrained, unpackTrained, untrained } from '../src/learn/trained.ts';

describe('what training has found', () => {
  it('is stored in bytes and read again, with and without a network', () => {
    const calibration = {
      kind: 'platt',
      raw: Float32Array.of(1, 5, 9),
      scores: Float32Array.of(2, 5, 8),
    } as const;
    const plain = { ...untrained, penalty: 3, calibration };
    const shape = { dimension: 16, attention: 16, hidden: 16 };
    const profile = new Float32Array(16).fill(0.25);
    const network = Float32Array.from({ length: 100 }, (_, at) => at / 7);
    for (const trained of [untrained, plain, { ...plain, blend: 0.5, shape, profile, network }]) {
      const bytes = packTrained(trained);
      // A database gives bytes that begin anywhere.
      const moved = new Uint8Array(bytes.length + 3);
      moved.set(bytes, 3);
      assert.deepEqual(unpackTrained(moved.subarray(3)), trained);
    }
  });

  it('is not read from anything else', () => {
    const other = packTrained(untrained);
    other[4 + Buffer.from(other.subarray(4)).indexOf('1')] = '2'.charCodeAt(0);
    assert.throws(() => unpackTrained(other), /a trained taste of format 2/);
    assert.throws(() => unpackTrained(new Uint8Array(2)));
  });
});
