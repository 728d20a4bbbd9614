import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { Gate, type Random } from 'spillway';
import { explore } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

describe('Gate', () => {
  it('refuses a signal that is none before it gives a place', async () => {
    const gate = new Gate({ limit: 1, queueMax: 1 });
    const entry = { signal: new AbortController() as unknown as AbortSignal };
    const message = /^signal: must be an AbortSignal, got AbortController/;
    assert.throws(() => gate.enter(entry), { message });
    await assert.rejects(
      gate.run(async () => 'ran', entry),
      { message },
    );
    assert.deepEqual([gate.stats.inside, gate.stats.waiting], [0, 0]);
  });

  it('lets in as many as its limit, and the rest in the order they came', async () => {
    const gate = new Gate({ limit: 2, queueMax: 9 });
    const seen: number[] = [];
    const first = await gate.enter();
    const second = await gate.enter();
    const rest = [1, 2, 3].map(async (number) => {
      using _place = await gate.enter();
      seen.push(number);
    });
    assert.deepEqual(gate.stats, { kind: 'gate', limit: 2, inside: 2, waiting: 3 });
    first[Symbol.dispose]();
    second[Symbol.dispose]();
    await Promise.all(rest);
    assert.deepEqual(seen, [1, 2, 3]);
    assert.deepEqual(gate.stats, { kind: 'gate', limit: 2, inside: 0, waiting: 0 });
  });

  it('refuses one more than may wait', async () => {
    const gate = new Gate({ limit: 1, queueMax: 1 });
    using _first = await gate.enter();
    const leaver = new AbortController();
    const second = entering(gate, leaver);
    await assert.rejects(entering(gate), { code: 'GATE_FULL', status: 503, retryable: true });
    assert.equal(gate.tryEnter(), undefined);
    leaver.abort();
    await assert.rejects(second, { name: 'AbortError' });
  });

  it('runs tasks inside, tells of an abort at once, and holds the place to the end', async () => {
    const gate = new Gate({ limit: 1, queueMax: 1 });
    assert.equal(await gate.run(async () => 7), 7);
    const caller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    const stubborn = gate.run(() => promise, { signal: caller.signal });
    caller.abort('gone');
    await assert.rejects(stubborn, (reason) => reason === 'gone');
    assert.equal(gate.stats.inside, 1);
    assert.throws(
      () => gate.enter(caller),
      (reason) => reason === 'gone',
    );
    resolve();
    await gate.run(async () => {});
    assert.equal(gate.stats.inside, 0);
  });

  it('gives a place back once, however often it is disposed', async () => {
    const gate = new Gate({ limit: 1, queueMax: 0 });
    const place = gate.tryEnter();
    assert.ok(place);
    place[Symbol.dispose]();
    place[Symbol.dispose]();
    assert.equal(gate.stats.inside, 0);
  });

  it('never hands a place to a waiter that aborted in the same tick', async () => {
    const gate = new Gate({ limit: 1, queueMax: 9 });
    const first = await gate.enter();
    const quitter = new AbortController();
    const gone = assert.rejects(entering(gate, quitter), { name: 'AbortError' });
    quitter.abort();
    first[Symbol.dispose]();
    await gone;
    assert.deepEqual(gate.stats, { kind: 'gate', limit: 1, inside: 0, waiting: 0 });
  });

  it('lets no newcomer overtake between a place’s return and the waiter’s wake-up', async () => {
    const gate = new Gate({ limit: 1, queueMax: 9 });
    const seen: string[] = [];
    const first = await gate.enter();
    const waiter = entering(gate).then((place) => {
      seen.push('waiter');
      place[Symbol.dispose]();
    });
    first[Symbol.dispose]();
    const newcomer = entering(gate).then((place) => {
      seen.push('newcomer');
      place[Symbol.dispose]();
    });
    await Promise.all([waiter, newcomer]);
    assert.deepEqual(seen, ['waiter', 'newcomer']);
  });

  it('lets I/O run though its callers wake each other without end', async () => {
    const gate = new Gate({ limit: 1, queueMax: 9 });
    let turned = false;
    let passes = 0;
    setImmediate(() => {
      turned = true;
    });
    while (!turned && passes < 100_000) {
      using _place = await gate.enter();
      passes += 1;
    }
    assert.ok(turned, `no I/O in ${passes} passes`);
  });

  it('refuses nobody because the loop has to turn first', async () => {
    const gate = new Gate({ limit: 2, queueMax: 0 });
    for (let i = 0; i < 2_000; i += 1) {
      using _place = await gate.enter();
      using _other = await gate.enter();
    }
    assert.equal(gate.stats.inside, 0);
  });

  it('gives each free place at once, the last one too', async () => {
    const gate = new Gate({ limit: 2, queueMax: 0 });
    await new Promise(setImmediate);
    for (let count = 0; count < 2; count += 1) assert.ok(!(gate.enter() instanceof Promise));
    assert.throws(() => gate.enter(), { code: 'GATE_FULL' });
  });

  it('lets nobody overtake a caller that waits only for the loop to turn', async () => {
    const gate = new Gate({ limit: 2, queueMax: 9 });
    let first = gate.enter();
    while (!(first instanceof Promise)) {
      first[Symbol.dispose]();
      first = gate.enter();
    }
    const second = gate.enter();
    assert.ok(second instanceof Promise, 'there are two places, and one caller before it');
    assert.equal(gate.tryEnter(), undefined, 'both places are those of the two that wait');
    assert.deepEqual(gate.stats, { kind: 'gate', limit: 2, inside: 2, waiting: 0 });
    for (const place of await Promise.all([first, second])) place[Symbol.dispose]();
    assert.equal(gate.stats.inside, 0);
  });

  for (const [what, begin] of [
    ['nextTurn', ''],
    ['whenTurnIsFree', 'takeTurn();'],
  ] as const) {
    it(`turns the loop for all who wait for it (${what}), though one of them throws`, () => {
      const program = `
        import { takeTurn, ${what} as wait } from '../src/wait/turn-budget.ts';
        process.on('uncaughtException', ({ message }) => console.log(message));
        ${begin}
        wait(() => console.log('first'));
        wait(() => { throw new Error('second'); });
        wait(() => { console.log('third'); ${begin} wait(() => console.log('fifth')); });
        wait(() => console.log('fourth'));`;
      const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
      const text = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
        cwd: import.meta.dirname,
        env,
        encoding: 'utf8',
      });
      assert.deepEqual(text.trim().split('\n'), ['first', 'second', 'third', 'fourth', 'fifth']);
    });
  }

  it('names the option and the rule it breaks', () => {
    assert.throws(
      () => new Gate({ limit: 0, queueMax: 1 }),
      /limit: must be an integer from 1, got 0/,
    );
    assert.throws(() => new Gate({ limit: Number.NaN, queueMax: 1 }), /limit: .* got NaN/);
    assert.throws(() => new Gate({ limit: 1, queueMax: -1 }), /queueMax: .* from 0, got -1/);
  });

  it('loses and doubles no place in any schedule', async () => {
    await explore(2_000, playGate);
  });
});

/** Callers come, leave, abort and are refused in a random order; some places are tried for. */
async function playGate(random: Random): Promise<void> {
  const limit = 1 + Math.floor(random() * 3);
  const queueMax = Math.floor(random() * 5);
  const gate = new Gate({ limit, queueMax });
  let inside = 0;
  let came = 0;
  let lastServed = -1;
  const use = async (order: number, entering: Promise<Disposable>) => {
    using _place = await entering;
    inside += 1;
    assert.ok(inside <= limit, `${inside} inside of ${limit}`);
    assert.ok(order > lastServed, `${order} served after ${lastServed}`);
    lastServed = order;
    for (let i = 0; i < random() * 6; i += 1) await undefined;
    inside -= 1;
  };
  const all: Promise<unknown>[] = [];
  for (let step = 0; step < 30; step += 1) {
    const controller = new AbortController();
    const order = came;
    came += 1;
    all.push(use(order, entering(gate, controller)).catch((error) => error));
    if (random() < 0.3) controller.abort();
    if (random() < 0.5) for (let i = 0; i < random() * 8; i += 1) await undefined;
    // Those whose place is on its way to them, once the loop has turned, still count as waiting.
    assert.ok(gate.stats.waiting <= queueMax + limit);
    assert.ok(gate.stats.inside <= limit);
  }
  await Promise.all(all);
  assert.deepEqual(gate.stats, { kind: 'gate', limit, inside: 0, waiting: 0 });
}
