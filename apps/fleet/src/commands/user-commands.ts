import { Command } from 'commander';
import { print, table } from 'spillway-cli';
import type { ShownUser } from '../operations/user-operations.ts';
import { ask, examplesOf, withSettings } from './command-line.ts';
import { randomPassword, readPassword } from './read-password.ts';

interface UserOptions {
  readonly approver?: boolean;
  readonly by?: string;
  readonly email?: string;
  readonly json?: boolean;
  readonly machines?: string;
  readonly passwordRandom?: boolean;
  readonly passwordStdin?: boolean;
  readonly pending?: boolean;
  readonly testsRepo?: string;
  readonly undo?: boolean;
}

const byText = 'the approver who does it (default: the system)';

/** `fleet user …`: who may send workers, submit runs and approve them. */
export function userCommands(): Command {
  const user = new Command('user').description('who may send workers, submit and approve runs');
  for (const command of [add(), list(), approve(), block(), limit(), password()]) {
    user.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return user;
}

function add(): Command {
  return withPassword(new Command('add').argument('<name>', 'letters and digits'))
    .description('make an account that can be used at once')
    .option('--approver', 'may approve runs and users')
    .option('--pending', 'must be approved first')
    .option('--email <address>', 'where to write to')
    .option('--machines <number>', 'how many tasks at once at one address (default 16)')
    .option('--tests-repo <url>', 'where the branches come from')
    .addHelpText('after', examplesOf('user add alice', 'user add ci --password-random --json'))
    .action(async (username: string, options: UserOptions, command: Command) => {
      const secret = await newPassword(options);
      const { approver, pending, email, machines, testsRepo } = options;
      const input = { username, password: secret, approver, pending, email, machines };
      const made = await ask(command, 'user-add', { ...input, tests_repo: testsRepo });
      tell(made, options, 'was added', secret);
    });
}

function list(): Command {
  return new Command('list')
    .description('show all accounts')
    .addHelpText('after', examplesOf('user list', 'user list --json'))
    .action(async (options: UserOptions, command: Command) => {
      const users = (await ask(command, 'user-list', {})) as ShownUser[];
      print(users, options.json, () => table(users, 'No users yet; see fleet user add.'));
    });
}

function approve(): Command {
  return new Command('approve')
    .description('accept an account that waits for it')
    .argument('<name>')
    .option('--by <name>', byText)
    .addHelpText('after', examplesOf('user approve alice'))
    .action(async (username: string, options: UserOptions, command: Command) => {
      const { by } = options;
      tell(await ask(command, 'user-approve', { username, by }), options, 'was approved');
    });
}

function block(): Command {
  return new Command('block')
    .description('refuse all that an account asks for')
    .argument('<name>')
    .option('--undo', 'let it in again')
    .option('--by <name>', byText)
    .addHelpText('after', examplesOf('user block mallory', 'user block mallory --undo'))
    .action(async (username: string, options: UserOptions, command: Command) => {
      const blocked = options.undo !== true;
      const said = blocked ? 'is blocked' : 'is not blocked any more';
      const input = { username, blocked, by: options.by };
      tell(await ask(command, 'user-block', input), options, said);
    });
}

function limit(): Command {
  return new Command('limit')
    .description('set how many tasks at once an account may have at one address')
    .argument('<name>')
    .argument('<machines>')
    .addHelpText('after', examplesOf('user limit alice 64'))
    .action(async (username: string, machines: string, options: UserOptions, command: Command) => {
      const changed = await ask(command, 'user-limit', { username, machines });
      tell(changed, options, `may have ${machines} tasks at once at one address`);
    });
}

function password(): Command {
  return withPassword(new Command('password').argument('<name>'))
    .description('give an account a new password')
    .addHelpText(
      'after',
      examplesOf('user password alice', 'user password alice --password-stdin < secret'),
    )
    .action(async (username: string, options: UserOptions, command: Command) => {
      const secret = await newPassword(options);
      const changed = await ask(command, 'user-password', { username, password: secret });
      tell(changed, options, 'has a new password', secret);
    });
}

function withPassword(command: Command): Command {
  return command
    .option('--password-stdin', 'read the password from standard input, not from the terminal')
    .option('--password-random', 'make a password and show it once');
}

function newPassword(options: UserOptions): Promise<string> {
  return options.passwordRandom ? Promise.resolve(randomPassword()) : readPassword(options);
}

function tell(user: unknown, options: UserOptions, said: string, secret?: string): void {
  const { username } = user as ShownUser;
  const shownSecret = options.passwordRandom ? { password: secret } : {};
  print({ ...(user as ShownUser), ...shownSecret }, options.json, () => {
    const line = `${username} ${said}.`;
    return options.passwordRandom ? `${line} Password, shown only now: ${secret}` : line;
  });
}
