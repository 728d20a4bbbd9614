import { Command } from 'commander';
import { print } from 'spillway-cli';
import type { ShownRun } from '../operations/run-operations.ts';
import { sampleBooks, sampleRuns } from '../operations/sample.ts';
import type { ShownUser } from '../operations/user-operations.ts';
import { called, examplesOf, operatorOf, withSettings } from './command-line.ts';
import { randomPassword } from './read-password.ts';

interface SeedOptions {
  readonly json?: boolean;
  readonly user: string;
}

/** `fleet seed`: something to do for a first worker. */
export function seedCommand(): Command {
  const command = new Command('seed')
    .description('a user and two approved runs, so that a worker has something to do')
    .option('--user <name>', 'who submits the runs and sends the worker', 'demo')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('seed', 'seed --user me --json'))
    .action(async (options: SeedOptions, self: Command) => {
      await using operator = await operatorOf(self);
      const call = (name: string, input: object) => called(self, operator, name, input);
      const username = options.user;
      const users = (await call('user-list', {})) as ShownUser[];
      const isKnown = users.some((user) => user.username === username);
      const password = isKnown ? undefined : randomPassword();
      if (password !== undefined) await call('user-add', { username, password });
      await call('book-add', { books: sampleBooks });
      const open = (await call('run-list', { limit: 1000 })) as ShownRun[];
      const own = open.filter((run) => run.username === username);
      for (const run of own.length > 0 ? [] : sampleRuns) {
        own.push((await call('run-add', { username, run, approve: true })) as ShownRun);
      }
      print({ username, password, runs: own }, options.json, () => said(username, password, own));
    });
  return withSettings(command);
}

function said(username: string, password: string | undefined, own: readonly ShownRun[]): string {
  const secret = password ?? '(as it was; a new one: fleet user password)';
  return [
    `User ${username}, password, shown only now: ${secret}`,
    ...own.map((run) => `Run ${run.id}: ${run.new_tag} at ${run.tc}, ${run.status}`),
    'A worker comes with: python3 worker.py <user> <password> --protocol http --host … --port …',
    'It gets the nets of the engine here: fleet net add <file>, or serve with --nets-url.',
  ].join('\n');
}
