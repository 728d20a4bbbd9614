import assert from 'node:assert/strict';
import { mkdtempDisposableSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { writeBackup } from 'spillway-cli';

async function* lines(): AsyncGenerator<string> {
  yield 'one\n';
  yield 'two\n';
}

it('a backup can be read by its user only, whatever an earlier attempt has left', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'cli-backup-'));
  const file = join(folder.path, 'backup');
  writeFileSync(`${file}.part`, 'left', { mode: 0o644 });
  await writeBackup(lines(), file);
  assert.equal(readFileSync(file, 'utf8'), 'one\ntwo\n');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(folder.path), ['backup']);
});
