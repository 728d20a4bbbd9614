import { Command } from 'commander';
import { print } from 'spillway-cli';
import { askOperator, operatorSocket } from 'spillway-http';
import { examplesOf, settingsOf, table, withSettings } from './command-line.ts';

interface JsonFlag {
  readonly json?: boolean;
}

interface Keyed {
  readonly name: string;
  readonly key: string;
}

/** `ranker user`: users and their keys, on the machine of the server. */
export function userCommands(): Command {
  const users = new Command('user').description('users and their keys; for the operator');
  const keyText = ({ name, key }: Keyed) => `${name}: ${key}  (shown only now)`;
  const add = new Command('add')
    .description('make a user')
    .argument('<name>')
    .addHelpText('after', examplesOf('user add ada'))
    .action(async (name: string, options: JsonFlag, self: Command) => {
      const made = await call<Keyed>(self, '/-/users', { name });
      print(made, options.json, () => keyText(made));
    });
  const key = new Command('key')
    .description('make a new key for a user; the old one is void')
    .argument('<name>')
    .addHelpText('after', examplesOf('user key ada'))
    .action(async (name: string, options: JsonFlag, self: Command) => {
      const path = `/-/users/${encodeURIComponent(name)}/key`;
      const made = await call<Keyed>(self, path, {});
      print(made, options.json, () => keyText(made));
    });
  const list = new Command('list')
    .description('list all users')
    .addHelpText('after', examplesOf('user list'))
    .action(async (options: JsonFlag, self: Command) => {
      const { users: all } = await call<{ users: object[] }>(self, '/-/users');
      print(all, options.json, () => table(all, 'There is nobody yet.'));
    });
  for (const command of [add, key, list]) {
    users.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return users;
}

const answerMsMax = 30_000;

/** Asks the server that has its data in the same folder. */
async function call<Answer>(command: Command, path: string, body?: object): Promise<Answer> {
  const { data } = settingsOf(command);
  const socket = operatorSocket(data);
  const signal = AbortSignal.timeout(answerMsMax);
  const { status, text } = await askOperator({ socket, path, body, signal }).catch((cause) => {
    const how = 'start it with "ranker serve", or name its folder with --data';
    throw new Error(`no server runs with its data in ${data}; ${how}`, { cause });
  });
  const answer = JSON.parse(text);
  if (status < 400) return answer as Answer;
  const { code = 'UNEXPECTED', message = `it answered ${status}` } = answer.error ?? {};
  throw new Error(`${code}: ${message}`);
}
