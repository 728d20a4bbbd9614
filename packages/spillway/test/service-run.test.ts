import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const fixture = fileURLToPath(new URL('./fixtures/service.ts', import.meta.url));

/** Runs the fixture, and sends the next signal each time it has said the next of these lines. */
async function run(mode: string, signals: readonly (readonly [string, NodeJS.Signals])[] = []) {
  const child = spawn(process.execPath, [fixture, mode], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let out = '';
  let errors = '';
  const rest = [...signals];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text;
    const [next] = rest;
    if (next !== undefined && out.includes(next[0])) {
      rest.shift();
      child.kill(next[1]);
    }
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const [code] = await once(child, 'close');
  return { code, lines: out.trim().split('\n'), errors };
}

describe('Service.run', { concurrency: 2 }, () => {
  it('drains at SIGTERM, in reverse order, and ends with code 0', async () => {
    const { code, lines, errors } = await run('slow', [['ready', 'SIGTERM']]);
    assert.equal(errors, '');
    assert.deepEqual(lines, [
      'ready',
      'server draining',
      'server closed, in time',
      'database closed',
    ]);
    assert.equal(code, 0);
  });

  it('drains at SIGINT too', async () => {
    const { code, lines } = await run('plain', [['ready', 'SIGINT']]);
    assert.equal(lines.at(-1), 'database closed');
    assert.equal(code, 0);
  });

  it('ends with code 1 when the time is over, and says what was left', async () => {
    const { code, lines, errors } = await run('stuck', [['ready', 'SIGTERM']]);
    assert.equal(errors, 'SERVICE_CLOSE: could not close everything: server not within 100 ms\n');
    assert.equal(lines.at(-1), 'database closed');
    assert.equal(code, 1);
  });

  it('ends at once at the second signal, with that signal’s code', async () => {
    const { code, errors } = await run('twice', [
      ['ready', 'SIGTERM'],
      ['still there', 'SIGTERM'],
    ]);
    assert.equal(errors, 'SIGTERM again: ended at once. Not closed: database, server\n');
    assert.equal(code, 143);
    const other = await run('twice', [
      ['ready', 'SIGTERM'],
      ['still there', 'SIGINT'],
    ]);
    assert.equal(other.code, 130);
  });

  it('ends with code 1 when a part fails to close, and says why', async () => {
    const { code, errors } = await run('failing', [['ready', 'SIGTERM']]);
    assert.match(errors, /could not close everything: database failed \(disk full\)/);
    assert.equal(code, 1);
  });

  it('ends with code 1 when a part fails to start, after it closed the others', async () => {
    const { code, lines, errors } = await run('unstartable');
    assert.match(errors, /part "server" failed to start: port taken/);
    assert.deepEqual(lines, ['database closed']);
    assert.equal(code, 1);
  });

  it('takes a signal while it starts for what it is, not for a failure to start', async () => {
    const { code, errors } = await run('slow-start', [['starting', 'SIGTERM']]);
    assert.equal(errors, '');
    assert.equal(code, 0);
  });

  it('ends the process when the service closes itself', async () => {
    const { code, lines } = await run('stops-itself');
    assert.equal(lines.at(-1), 'database closed');
    assert.equal(code, 0);
  });
});
