import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Gives an order to the process of a server, and gives back its answer. */
export type Ask = <Answer>(order: object) => Promise<Answer>;

/** Starts a fleet in a process of its own, on a new folder that it deletes at its end. */
export async function serverProcess(): Promise<Ask> {
  const folder = await mkdtemp(join(tmpdir(), 'fleet-bench-'));
  const apps = join(import.meta.dirname, '..', '..', 'apps');
  const program = join(apps, 'fleet', 'test', 'fixtures', 'fleet-server.ts');
  const child = fork(program, [JSON.stringify({ folder, isTemporary: true })]);
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`the server ended with code ${code}`);
  });
  gone.catch(() => {});
  return async <Answer>(order: object): Promise<Answer> => {
    child.send(order);
    const [{ answer }] = (await Promise.race([once(child, 'message'), gone])) as [
      { answer: Answer },
    ];
    return answer;
  };
}
