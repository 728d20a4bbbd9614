import { Command } from 'commander';
import { print } from 'spillway-cli';
import { clientOf, examplesOf, type ServerFlags, table, withServer } from './command-line.ts';

interface Keyed {
  readonly name: string;
  readonly key: string;
}

/** `ranker user`: who may ask; for the operator, whose token is sent as the key. */
export function userCommands(): Command {
  const users = new Command('user').description('users and their keys; for the operator');
  const keyText = ({ name, key }: Keyed) => `${name}: ${key}  (shown only now)`;
  const add = new Command('add')
    .description('make a user')
    .argument('<name>')
    .addHelpText('after', examplesOf('user add ada'))
    .action(async (name: string, options: ServerFlags) => {
      const made = await operatorOf(options).call<Keyed>('/-/users', {
        ...{ method: 'POST', body: { name } },
      });
      print(made, options.json, () => keyText(made));
    });
  const key = new Command('key')
    .description('make a new key for a user; the old one is void')
    .argument('<name>')
    .addHelpText('after', examplesOf('user key ada'))
    .action(async (name: string, options: ServerFlags) => {
      const path = `/-/users/${encodeURIComponent(name)}/key`;
      const made = await operatorOf(options).call<Keyed>(path, { method: 'POST' });
      print(made, options.json, () => keyText(made));
    });
  const list = new Command('list')
    .description('list all users')
    .addHelpText('after', examplesOf('user list'))
    .action(async (options: ServerFlags) => {
      const { users: all } = await operatorOf(options).call<{ users: object[] }>('/-/users');
      print(all, options.json, () => table(all, 'There is nobody yet.'));
    });
  for (const command of [add, key, list]) users.addCommand(withServer(command));
  return users;
}

/** On the same machine no token is needed, and a user's key would be taken for a wrong one. */
function operatorOf({ url, key }: ServerFlags) {
  const isToken = key !== undefined && !key.startsWith('rk_');
  return clientOf({ ...(url !== undefined && { url }), ...(isToken && { key }) });
}
