import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { sendOdd, statusesOf } from './fixtures/odd-client.ts';
import { oddRequest } from './fixtures/odd-request.ts';

interface Holding {
  readonly inside: number;
  readonly waiting: number;
  readonly connections: number;
  readonly heapBytes: number;
  /** Failures that nobody foresaw. */
  readonly unexpected: readonly string[];
  /** Files that uploads have begun. */
  readonly parts: number;
}

/** Ten requests and frames each, on average: 200,000. `npm run fuzz` has a million. */
const connectionsMax = Number(process.env.SPILLWAY_FUZZ ?? 20_000);
const atOnce = 48;
const waitMsMax = 60_000;

describe('a server and its odd clients', () => {
  it('answers whatever comes without a failure of its own, and holds nothing afterwards', {
    timeout: Math.max(300_000, connectionsMax * 20),
  }, async () => {
    const child = fork(join(import.meta.dirname, 'fixtures', 'odd-server.ts'), {
      execArgv: ['--expose-gc'],
    });
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    const holding = async (): Promise<Holding> => {
      child.send({});
      const [answer] = await once(child, 'message');
      return answer as Holding;
    };
    const counts = new Map<number, number>();
    let seed = 0;
    let sent = 0;
    const client = async (until: number): Promise<void> => {
      while (seed < until) {
        seed += 1;
        const number = seed;
        const request = oddRequest(seededRandom(number));
        sent += request.count;
        const answer = await sendOdd(port, request, waitMsMax).catch((cause) =>
          Promise.reject(new Error(`seed ${number}`, { cause })),
        );
        for (const status of statusesOf(answer)) {
          counts.set(status, (counts.get(status) ?? 0) + 1);
          const isCoding = status === 501 && answer.includes('"code":"BODY_CODING"');
          assert.ok(status < 500 || status > 503 || isCoding, `seed ${number}: ${answer}`);
        }
      }
    };
    const clients = (until: number) =>
      Promise.all(Array.from({ length: atOnce }, () => client(until)));
    try {
      await clients(connectionsMax / 4);
      const before = await holding();
      await clients(connectionsMax);
      let after = await holding();
      // The server may hear of the end of the last connections a moment later than their clients.
      const isBusy = ({ inside, connections, parts }: Holding) => inside + connections + parts > 0;
      for (let asks = 0; asks < 1_000 && isBusy(after); asks += 1) after = await holding();
      const { inside, waiting, connections, parts } = after;
      assert.deepEqual(
        { inside, waiting, connections, parts },
        { inside: 0, waiting: 0, connections: 0, parts: 0 },
      );
      assert.equal(child.exitCode, null);
      assert.ok(sent >= 10 * connectionsMax, `${sent} requests and frames`);
      assert.deepEqual(after.unexpected, [], 'also those whose client did not wait');
      const grownBytes = after.heapBytes - before.heapBytes;
      assert.ok(grownBytes < 4_000_000, `the heap grew by ${grownBytes} bytes`);
      for (const status of [101, 200, 204, 400, 403, 404, 405, 413, 415, 422, 431, 501]) {
        assert.ok((counts.get(status) ?? 0) > 0, `no answer ${status} in ${[...counts]}`);
      }
    } finally {
      child.kill();
    }
  });
});
