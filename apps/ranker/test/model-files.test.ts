import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { defaultModel } from '../src/learn/embedding-model.ts';

describe('the model that comes with the app', () => {
  it('has the files that were published', () => {
    const { folder } = defaultModel();
    const lines = readFileSync(join(folder, 'SHA256SUMS'), 'utf8').trim().split('\n');
    assert.equal(lines.length, 4);
    for (const line of lines) {
      const [sum, name = ''] = line.split(/ +/);
      const found = createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex');
      assert.equal(found, sum, name);
    }
  });
});
