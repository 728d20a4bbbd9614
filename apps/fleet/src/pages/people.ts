import { SpillwayError } from 'spillway';
import { type Html, html, sessionOf } from 'spillway-http';
import {
  ago,
  button,
  card,
  copyable,
  decimal,
  facts,
  hiddenFields,
  state,
  tabs,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import { operations } from '../operations/operations.ts';
import { baseOf } from '../read/answers.ts';
import { impossibleHash, passwordMark } from '../users/password.ts';
import type { User } from '../users/users.ts';
import { newPassword, passwordErrors } from './account.ts';
import { timeText } from './events.ts';
import { capital, fieldsOf, formPage } from './form.ts';
import { hrefOf, type ListColumn, listPage, numbers, texts } from './listing.ts';
import type { Pages } from './routes.ts';
import { type FieldErrors, isApprover, type PageSession, type Shown, type Visit } from './visit.ts';

const idleMs = 5 * 86_400_000;

/** Pages of a user's profile and of user management. */
export const peoplePages: Pages = {
  '/user_management': { for: 'approver', noStore: true, get: managementPage },
  '/user_management/pending_count': {
    get: async ({ context, reply }) => {
      await context.figures.refresh();
      const count = context.figures.pendingUsers;
      return reply.send(html`<a href="/user_management">Users (${count})</a>`);
    },
  },
  '/user': {
    for: 'user',
    noStore: true,
    get: (visit) => profilePage(visit, visit.person as User),
    post: changeProfile,
  },
  '/user/:name': {
    for: 'user',
    noStore: true,
    get: async (visit) => {
      const user = await userOf(visit);
      if (user.username === visit.person?.username) return profilePage(visit, user);
      return visit.refusalFor('approver') ?? otherPage(visit, user);
    },
    post: async (visit) => {
      const user = await userOf(visit);
      if (user.username === visit.person?.username) return changeProfile(visit);
      return visit.refusalFor('approver') ?? decide(visit, user);
    },
  },
};

/** The user whose name is in the path. */
export async function userOf({ context, params, signal }: Visit): Promise<User> {
  const { name = '' } = params;
  const user = await context.users.find(name, signal);
  if (user === undefined) throw fleetError('RECORD_UNKNOWN', `There is no user ${name}`);
  return user;
}

const groups = ['all', 'pending', 'blocked', 'idle', 'approvers', 'passwordless'] as const;

async function managementPage(visit: Visit): Promise<Shown> {
  const { users, contributors, clock } = visit.context;
  const [all, given] = await Promise.all([users.list(), contributors.list('contributors')]);
  const seen = new Map(given.map(({ username, last_updated }) => [username, last_updated]));
  const now = clock.now();
  const isIdle = ({ username }: User) => now - (seen.get(username) ?? 0) > idleMs;
  const belongs: Readonly<Record<(typeof groups)[number], (user: User) => boolean>> = {
    all: () => true,
    pending: ({ pending }) => pending,
    blocked: ({ blocked }) => blocked,
    idle: (user) => !user.pending && isIdle(user),
    approvers: isApprover,
    passwordless: ({ password_hash }) => password_hash === impossibleHash,
  };
  const group = groups.find((name) => name === visit.query.group) ?? 'pending';
  const path = '/user_management';
  const links = groups.map((name) => ({
    name: capital(name),
    href: hrefOf(path, { group: name }),
    current: name === group,
  }));
  return listPage({
    visit,
    id: 'users',
    title: 'Users',
    head: { actions: tabs('Groups of users', links) },
    columns: userColumns(seen, now),
    rows: all.filter(belongs[group]),
    key: ({ username }) => username,
    path,
    query: { ...visit.query, group },
    pageSize: 25,
    hasAll: true,
    order: ['registered', true],
    search: { name: 'q', label: 'Name or e-mail', more: hiddenFields({ group }) },
    text: ({ username, email }) => `${username} ${email}`,
    nothing: group === 'pending' ? 'No account waits for approval.' : 'There is no such user.',
  });
}

function userColumns(seen: ReadonlyMap<string, number>, now: number): ListColumn<User>[] {
  return [
    texts('User', 'username', ({ username }) => username.toLowerCase(), {
      cell: ({ username }) => html`<a href="/user/${username}">${username}</a>`,
    }),
    { name: 'State', cell: userState, fold: 'corner' },
    numbers('Registered', 'registered', ({ registration_time }) => registration_time, {
      cell: ({ registration_time }) => timeText(registration_time).slice(0, 10),
    }),
    numbers('Last games', 'last', ({ username }) => seen.get(username) ?? 0, {
      cell: ({ username }) => (seen.has(username) ? ago(now - (seen.get(username) ?? 0)) : '–'),
    }),
    texts('E-mail', 'email', ({ email }) => email, { cell: mailLink, fold: 'whole' }),
  ];
}

function mailLink({ email }: User): Html | string {
  return email === '' ? '–' : html`<a href="${mailTo(email)}">${email}</a>`;
}

/** A `mailto:` link. The address is escaped, so it cannot set other fields of the message. */
export function mailTo(email: string, fields: Readonly<Record<string, string>> = {}): string {
  const query = Object.entries(fields).map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
  const to = encodeURIComponent(email).replace('%40', '@');
  return `mailto:${to}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}

function userState(user: User): Html {
  if (user.blocked) return state('error', 'Blocked', 'bare');
  if (user.pending) return state('pending', 'Pending', 'bare');
  return state('ok', isApprover(user) ? 'Approver' : 'Active', 'bare');
}

function aboutUser(user: User): Html {
  return facts([
    ['State', userState(user)],
    ['Registered', timeText(user.registration_time)],
    ['Task limit per address', decimal(user.machine_limit)],
    ['Runs', html`<a href="/tests/user/${user.username}">All runs of ${user.username}</a>`],
    ['Events', html`<a href="/actions?user=${user.username}">Events of ${user.username}</a>`],
  ]);
}

function profilePage(visit: Visit, user: User, errors: FieldErrors = {}): Shown {
  const { username, email, tests_repo } = user;
  const fields = operations.get('user-change')?.input;
  const secret = { type: 'password', autocomplete: 'current-password' } as const;
  return formPage({
    visit,
    title: username,
    card: { id: 'profile', title: 'Profile' },
    action: '/user',
    hidden: { user: username },
    fields: [
      ...fieldsOf(fields, { email: { type: 'email' }, tests_repo: {} }),
      ...newPassword('New password (optional)', 'Repeat the new password'),
      { ...secret, name: 'old_password', label: 'Current password' },
    ],
    values: { email, tests_repo, ...visit.form },
    errors,
    submit: 'Save',
    beside: html`<span class="quiet small">Every change needs your password.</span>`,
    aside: card({ id: 'about', title: 'About this account', body: aboutUser(user) }),
  });
}

async function changeProfile(visit: Visit) {
  const { users } = visit.context;
  const user = visit.person as User;
  const { username } = user;
  const { form } = visit;
  const address = visit.request.ip;
  const { password = '', old_password = '', email, tests_repo } = form;
  const errors: Record<string, string> = {};
  await users
    .admit({ username, password: old_password, address }, visit)
    .catch((error: unknown) => {
      if (!(error instanceof SpillwayError) || error.code !== 'ACCESS_REFUSED') throw error;
      errors.old_password = 'This is not your password.';
    });
  if (password !== '') Object.assign(errors, passwordErrors(form, username, email ?? user.email));
  if (Object.keys(errors).length > 0) return profilePage(visit, user, errors);
  const change = { username, email, tests_repo };
  const hasChange = email !== undefined || tests_repo !== undefined;
  let { faults } = hasChange ? await visit.attempt('user-change', change) : {};
  if (faults === undefined && password !== '') {
    ({ faults } = await visit.attempt('user-password', { username, password }));
  }
  if (faults !== undefined) return profilePage(visit, user, faults);
  const changed = password === '' ? undefined : await users.find(username);
  // A new password ends all sessions. This one goes on.
  if (changed) sessionOf<PageSession>(visit.request).set('mark', passwordMark(changed));
  return visit.goTo('/user', 'Your profile was changed.');
}

function otherPage(visit: Visit, user: User, link?: PasswordLink): Shown {
  const { clock } = visit.context;
  const { username } = user;
  const ask = (name: string, value: string, label: string, danger = false) =>
    html`<form method="post" action="/user/${username}">${visit.token}
${hiddenFields({ user: username, [name]: value })}${button({ label, danger })}</form>`;
  const age = ago(clock.now() - user.registration_time);
  const actions = user.pending
    ? [ask('pending', '0', 'Accept'), ask('pending', '1', 'Reject and remove', true)]
    : [user.blocked ? ask('blocked', '0', 'Unblock') : ask('blocked', '1', 'Block', true)];
  actions.push(ask('link', '1', 'Create a password link'));
  const more = facts([
    ['E-mail', mailLink(user)],
    ['Repository', user.tests_repo || '–'],
    ['Signed up', age],
  ]);
  const main = html`${link && linkCard(link, user)}
<div class="halves">${card({ id: 'person', title: 'Person', body: more })}
${card({ id: 'about', title: 'About this account', body: aboutUser(user) })}</div>`;
  const crumbs = [{ name: 'Users', href: '/user_management' }, { name: username }];
  const head = { about: userState(user), actions: html`${actions}`, crumbs };
  return { title: username, place: '/user_management', head, main };
}

interface PasswordLink {
  readonly link: string;
  readonly expires: string;
}

function linkCard({ link, expires }: PasswordLink, { username, email }: User): Html {
  const href = mailTo(email, {
    subject: `Your account ${username}`,
    body: `Choose a new password here, until ${expires.slice(0, 10)}:\n${link}\n`,
  });
  const send = email !== '' && button({ label: 'Send it by e-mail', href });
  const body = html`<div class="stack"><p>Send this link to ${username}. It works once, until
${expires.slice(0, 10)}, and is shown only now.</p>${copyable('password-link', link)}${
    send && html`<div class="row">${send}</div>`
  }</div>`;
  return card({ id: 'link', title: 'Password link', body });
}

/** Accepts, rejects, blocks or unblocks a user, or makes a link for a new password. */
async function decide(visit: Visit, user: User) {
  const { username } = user;
  const { pending, blocked, link: isLink } = visit.form;
  if (isLink === '1') {
    const { link, expires } = (await visit.attempt('user-link', { username }))
      .value as PasswordLink;
    const base = link.startsWith('/') ? baseOf(visit.request) : '';
    return otherPage(visit, user, { link: `${base}${link}`, expires });
  }
  const run = async (name: string, input: object, to: string, done: string) => {
    const { problem } = await visit.attempt(name, { username, ...input });
    return visit.goTo(to, problem ?? `${username} ${done}.`);
  };
  const back = '/user_management';
  if (pending === '0') return run('user-approve', {}, back, 'was accepted');
  if (pending === '1') return run('user-reject', {}, back, 'was removed');
  if (blocked === undefined) return visit.goTo(`/user/${username}`);
  const isBlocked = blocked === '1';
  const done = isBlocked ? 'is blocked' : 'is no longer blocked';
  return run('user-block', { blocked: isBlocked }, `/user/${username}`, done);
}
