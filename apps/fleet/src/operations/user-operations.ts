import { fleetError } from '../errors.ts';
import type { FieldReader } from '../field-reader.ts';
import { patterns } from '../protocol/schema.ts';
import { systemUser } from '../scheduling/actions.ts';
import { approversGroup, type User } from '../users/user.ts';
import type { UserChange } from '../users/users.ts';
import type { Desk, Operation } from './desk.ts';

/** A user as operators see one. */
export interface ShownUser {
  readonly username: string;
  readonly status: 'active' | 'pending' | 'blocked';
  readonly approver: boolean;
  readonly machine_limit: number;
  readonly email: string;
  readonly tests_repo: string;
  readonly registered: string;
}

const usernameRule = {
  rule: '2 to 64 letters and digits, without any others',
  holds: (value: string) => patterns.username.test(value) && value.length <= 64,
};
const passwordRule = {
  rule: 'a password of 1 to 72 characters',
  holds: (value: string) => value.length >= 1 && value.length <= 72,
};
const machinesRule = {
  rule: 'an integer from 0 to 10000',
  holds: (value: number) => value >= 0 && value <= 10_000,
};

/** What can be done to users. */
export const userOperations: Readonly<Record<string, Operation>> = {
  'user-add': async ({ users }, input) => {
    input.only(['username', 'password', 'email', 'approver', 'pending', 'machines', 'tests_repo']);
    const username = input.text('username', usernameRule);
    const password = input.secret('password', passwordRule);
    const email = input.text('email', {
      rule: 'an address with one @, or nothing',
      holds: (value) => /^([^@\s]+@[^@\s]+)?$/.test(value) && value.length <= 200,
      absent: '',
    });
    const testsRepo = input.text('tests_repo', {
      rule: 'https://github.com/<user>/<repository>, or nothing',
      holds: (value) => value === '' || patterns.githubRepo.test(value),
      absent: '',
    });
    const machineLimit = input.integer('machines', { ...machinesRule, absent: 16 });
    const groups = input.flag('approver', false) ? [approversGroup] : [];
    const pending = input.flag('pending', false);
    input.check();
    const all = { username, password, email, testsRepo, machineLimit, groups, pending };
    return shown(await users.add(all));
  },

  'user-list': async ({ users }) => (await users.list()).map(shown),

  'user-approve': async (desk, input) => {
    input.only(['username', 'by']);
    const username = input.text('username', usernameRule);
    const by = await operatorName(desk, input);
    input.check();
    return change(desk, username, { pending: false }, { by, action: 'accept_user' });
  },

  'user-block': async (desk, input) => {
    input.only(['username', 'blocked', 'by']);
    const username = input.text('username', usernameRule);
    const blocked = input.flag('blocked', true);
    const by = await operatorName(desk, input);
    input.check();
    return change(desk, username, { blocked }, { by, action: 'block_user' });
  },

  'user-limit': async (desk, input) => {
    input.only(['username', 'machines']);
    const username = input.text('username', usernameRule);
    const machineLimit = input.integer('machines', machinesRule);
    input.check();
    return change(desk, username, { machineLimit });
  },

  'user-password': async (desk, input) => {
    input.only(['username', 'password']);
    const username = input.text('username', usernameRule);
    const password = input.secret('password', passwordRule);
    input.check();
    if (!(await desk.users.setPassword(username, password))) throw unknown(username);
    return shown(await present(desk, username));
  },
};

/** Under which name an operator acts: that of the system, or of an approver. */
export async function operatorName(desk: Desk, input: FieldReader): Promise<string> {
  if (!input.has('by')) return systemUser;
  const by = input.text('by', usernameRule);
  const user = await desk.users.find(by);
  if (user?.groups.includes(approversGroup)) return by;
  input.fault('by', `must be an approver, and ${by} is not one`);
  return by;
}

async function change(
  desk: Desk,
  username: string,
  to: UserChange,
  log?: Parameters<Desk['users']['change']>[2],
): Promise<ShownUser> {
  if (!(await desk.users.change(username, to, log))) throw unknown(username);
  return shown(await present(desk, username));
}

async function present(desk: Desk, username: string): Promise<User> {
  const user = await desk.users.find(username);
  if (user === undefined) throw unknown(username);
  return user;
}

function unknown(username: string): Error {
  return fleetError('RECORD_UNKNOWN', `there is no user ${username}; see fleet user list`);
}

function shown(user: User): ShownUser {
  const waiting = user.pending ? 'pending' : 'active';
  return {
    username: user.username,
    status: user.blocked ? 'blocked' : waiting,
    approver: user.groups.includes(approversGroup),
    machine_limit: user.machineLimit,
    email: user.email,
    tests_repo: user.testsRepo,
    registered: new Date(user.registrationTime).toISOString(),
  };
}
