import type { SpillwayError } from 'spillway';
import { table } from 'spillway-cli';
import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';
import { impossibleHash, linkMs, newPasswordMax, passwordLink } from '../users/password.ts';
import { approversGroup, type User } from '../users/users.ts';
import { type Field, flag, integerIn, optional, secret, text } from './fields.ts';
import { type AnyOperation, accountField, operation } from './operation.ts';

export const newName: Field<string> = text({
  about: 'user name (2 to 64 letters and digits)',
  rule: '2 to 64 letters and digits, without any others',
  holds: (value) => patterns.username.test(value) && value.length <= 64,
});

const password = secret({
  rule: `a password of 1 to ${newPasswordMax} characters`,
  holds: (value) => value.length >= 1 && value.length <= newPasswordMax,
});

export const emailField: Field<string> = text({
  about: 'e-mail (approvers see it, nobody else does)',
  rule: 'an address like you@example.org',
  holds: (value) => /^([^@\s\p{Cc}]+@[^@\s\p{Cc}]+)?$/u.test(value) && value.length <= 200,
  absent: '',
});
export const repositoryField: Field<string> = text({
  about: 'repository of the branches (such as https://github.com/you/Stockfish)',
  rule: 'https://github.com/<user>/<repository>, or nothing',
  holds: (value) => value === '' || patterns.githubRepo.test(value),
  absent: '',
});

/** Accounts: who may send workers, submit runs and approve them. */
export const userOperations: Readonly<Record<string, AnyOperation>> = {
  'user-add': operation({
    about: 'make an account that can be used at once',
    examples: ['user add alice', 'user add ci --password-random --json'],
    words: ['username'],
    input: {
      username: newName,
      password,
      approver: flag(false, { about: 'may approve runs and users' }),
      pending: flag(false, { about: 'must be approved first' }),
      email: emailField,
      machines: integerIn(0, 10_000, {
        about: 'how many tasks at once at one address (default 16)',
        absent: 16,
      }),
      tests_repo: repositoryField,
    },
    role: 'approver',
    do: async ({ users }, { approver, machines, ...given }, { username: by }) => {
      const groups = approver ? [approversGroup] : [];
      return shown(await users.add({ ...given, groups, machine_limit: machines }, by));
    },
    say: ({ username }) => `${username} was added.`,
  }),

  'user-list': operation({
    about: 'show all accounts',
    examples: ['user list', 'user list --json'],
    input: {},
    role: 'reader',
    do: async ({ users }) => (await users.list()).map(shown),
    say: (users) => table(users, 'No users yet; see fleet user add.'),
  }),

  'user-approve': operation({
    about: 'accept an account that waits for it',
    examples: ['user approve alice'],
    words: ['username'],
    input: { username: accountField },
    role: 'approver',
    do: async ({ users }, { username }, { username: by }) => {
      const log = { by, action: 'accept_user', message: 'accepted' } as const;
      return changed(username, await users.change(username, { pending: false }, log));
    },
    say: ({ username }) => `${username} was approved.`,
  }),

  'user-block': operation({
    about: 'refuse all that an account asks for',
    examples: ['user block mallory', 'user block mallory --undo'],
    words: ['username'],
    input: {
      username: accountField,
      blocked: flag(true, { about: 'let it in again', flag: '--undo' }),
    },
    role: 'approver',
    do: async ({ users }, { username, blocked }, { username: by }) => {
      const message = blocked ? 'blocked' : 'unblocked';
      const log = { by, action: 'block_user', message } as const;
      return changed(username, await users.change(username, { blocked }, log));
    },
    say: ({ username, status }) =>
      `${username} ${status === 'blocked' ? 'is blocked' : 'is not blocked any more'}.`,
  }),

  'user-limit': operation({
    about: 'set how many tasks at once an account may have at one address',
    examples: ['user limit alice 64'],
    words: ['username', 'machines'],
    input: { username: accountField, machines: integerIn(0, 10_000) },
    role: 'approver',
    do: async ({ users }, { username, machines: machine_limit }, { username: by }) => {
      const message = `machine limit changed to ${machine_limit}`;
      const log = { by, action: 'modify_user', message } as const;
      return changed(username, await users.change(username, { machine_limit }, log));
    },
    say: ({ username, machine_limit }) =>
      `${username} may have ${machine_limit} tasks at once at one address.`,
  }),

  'user-password': operation({
    about: 'give an account a new password',
    examples: ['user password alice', 'user password alice --password-stdin < secret'],
    words: ['username'],
    input: { username: accountField, password },
    role: 'approver',
    ownerOf: (_context, { username }) => username,
    do: async ({ users }, { username, password: text }, { username: by }) =>
      changed(username, await users.setPassword(username, text, by)),
    say: ({ username }) => `${username} has a new password.`,
  }),

  'user-link': operation({
    about: 'make a link with which the owner of an account chooses a new password, once',
    examples: ['user link alice', 'user link alice --json'],
    words: ['username'],
    input: { username: accountField },
    role: 'approver',
    do: async ({ users, storage, clock, baseUrl = '' }, { username }, { username: by }) => {
      const user = await users.find(username);
      if (user === undefined) throw unknownUser(username);
      const now = clock.now();
      const about = { action: 'modify_user', message: 'password link made' } as const;
      await storage.log({ time: now / 1000, username: by, user: username, ...about });
      const expiresAt = Math.floor(now + linkMs);
      const path = passwordLink(await storage.secretKey(), user, expiresAt);
      return { username, link: `${baseUrl}${path}`, expires: new Date(expiresAt).toISOString() };
    },
    say: ({ username, link, expires }) => {
      const address = link.startsWith('/') ? ' (below the address of the server)' : '';
      return `${username} chooses a new password at${address}:\n${link}\nIt ends at ${expires}.`;
    },
  }),

  'user-change': operation({
    about: 'change the address or the repository of an account',
    examples: ['user change alice --email alice@example.org'],
    words: ['username'],
    input: {
      username: accountField,
      email: optional(emailField),
      tests_repo: optional(repositoryField),
    },
    role: 'approver',
    ownerOf: (_context, { username }) => username,
    do: async ({ users }, { username, ...to }, { username: by }) => {
      const given = Object.entries(to).filter(([, value]) => value !== undefined);
      if (given.length === 0) {
        const text = 'nothing to change: give --email or --tests-repo';
        throw fleetError('REQUEST_REFUSED', text);
      }
      const log = { by, action: 'modify_user', message: 'profile changed' } as const;
      return changed(username, await users.change(username, Object.fromEntries(given), log));
    },
    say: ({ username }) => `${username} was changed.`,
  }),

  'user-reject': operation({
    about: 'remove an account that waits for approval',
    examples: ['user reject mallory'],
    words: ['username'],
    input: { username: accountField },
    role: 'approver',
    do: async ({ users }, { username }, { username: by }) => {
      const removed = await users.reject(username, by);
      if (removed === undefined && (await users.find(username)) !== undefined) {
        throw fleetError('REQUEST_REFUSED', `${username} is accepted already; block the account`);
      }
      return changed(username, removed);
    },
    say: ({ username }) => `${username} was removed.`,
  }),
};

function changed(username: string, user: User | undefined) {
  if (user !== undefined) return shown(user);
  throw unknownUser(username);
}

function unknownUser(username: string): SpillwayError {
  return fleetError('RECORD_UNKNOWN', `there is no user ${username}; see fleet user list`);
}

/** A user as operators see one. */
function shown(user: User) {
  const waiting = user.pending ? 'pending' : 'active';
  return {
    username: user.username,
    status: user.blocked ? 'blocked' : waiting,
    approver: user.groups.includes(approversGroup),
    machine_limit: user.machine_limit,
    email: user.email,
    tests_repo: user.tests_repo,
    registered: new Date(user.registration_time).toISOString(),
    // An account that was imported has none before its owner has chosen one.
    has_password: user.password_hash !== impossibleHash,
  };
}
