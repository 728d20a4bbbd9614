import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { packTrained, unpackTrained, untrained } from '../src/learn/trained.ts';

describe('what training has found', () => {
  it('is stored in bytes and read again', () => {
    const calibration = {
      kind: 'platt',
      raw: Float32Array.of(1, 5, 9),
      scores: Float32Array.of(2, 5, 8),
    } as const;
    const plain = { ...untrained, penalty: 3, calibration };
    for (const trained of [untrained, plain]) {
      const bytes = packTrained(trained);
      // A database gives bytes that begin anywhere.
      const moved = new Uint8Array(bytes.length + 3);
      moved.set(bytes, 3);
      assert.deepEqual(unpackTrained(moved.subarray(3)), trained);
    }
  });

  it('is read without the network that older versions stored, and what was fitted to it', () => {
    const shape = { dimension: 16, attention: 16, hidden: 16 };
    const header = { format: 1, penalty: 3, kind: 'platt', points: 2, shape };
    const numbers = Float32Array.of(1, 9, 2, 8, ...new Array(116).fill(0.25));
    const stored = (blend: number) => {
      const text = Buffer.from(JSON.stringify({ ...header, blend }));
      const padded = Buffer.alloc(Math.ceil(text.length / 4) * 4);
      padded.set(text);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(text.length);
      return Buffer.concat([length, padded, new Uint8Array(numbers.buffer)]);
    };
    assert.deepEqual(unpackTrained(stored(0.5)), { ...untrained, penalty: 3 });
    const calibration = {
      kind: 'platt',
      raw: Float32Array.of(1, 9),
      scores: Float32Array.of(2, 8),
    };
    assert.deepEqual(unpackTrained(stored(0)), { penalty: 3, calibration });
  });

  it('is not read from anything else', () => {
    const other = packTrained(untrained);
    other[4 + Buffer.from(other.subarray(4)).indexOf('1')] = '2'.charCodeAt(0);
    assert.throws(() => unpackTrained(other), /a trained taste of format 2/);
    assert.throws(() => unpackTrained(new Uint8Array(2)));
  });
});
