import type { FastifyInstance } from 'fastify';
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
  pageHead,
  state,
  tabs,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import { operateAs, operations } from '../operations/operations.ts';
import type { QueryTexts } from '../read/answers.ts';
import { impossibleHash, passwordMark } from '../users/password.ts';
import type { User } from '../users/users.ts';
import { newPassword, passwordErrors } from './account.ts';
import { timeText } from './events.ts';
import { fieldsOf, formPage } from './form.ts';
import { hrefOf, type ListColumn, listing, numbers, searchForm, texts } from './listing.ts';
import type { PageContext } from './pages.ts';
import {
  actorOf,
  addPage,
  attempt,
  type FieldErrors,
  goTo,
  isApprover,
  type PageSession,
  refusalFor,
  type Shown,
  tokenField,
  type Visit,
} from './visit.ts';

const idleMs = 5 * 86_400_000;

/** Profiles and the management of users. */
export function peoplePages(app: FastifyInstance, context: PageContext): void {
  addPage(app, context, '/user_management', {
    for: 'approver',
    noStore: true,
    get: async ({ query }) => managementPage(context, query),
  });
  app.get('/user_management/pending_count', async (_request, reply) => {
    await context.figures.refresh();
    return reply.send(html`<a href="/user_management">Users (${context.figures.pendingUsers})</a>`);
  });
  const noStore = true;
  addPage(app, context, '/user', {
    for: 'user',
    noStore,
    get: async (visit) => profilePage(visit, visit.person as User),
    post: (visit) => changeProfile(context, visit),
  });
  const userOf = async (visit: Visit) => {
    const { name } = visit.request.params as { name: string };
    const user = await context.users.find(name, visit.signal);
    if (user === undefined) throw fleetError('RECORD_UNKNOWN', `There is no user ${name}`);
    return user;
  };
  addPage(app, context, '/user/:name', {
    for: 'user',
    noStore,
    get: async (visit) => {
      const user = await userOf(visit);
      if (user.username === visit.person?.username) return profilePage(visit, user);
      return refusalFor(visit, 'approver') ?? otherPage(context, visit, user);
    },
    post: async (visit) => {
      const user = await userOf(visit);
      if (user.username === visit.person?.username) return changeProfile(context, visit);
      return refusalFor(visit, 'approver') ?? decide(context, visit, user);
    },
  });
}

const groups = ['all', 'pending', 'blocked', 'idle', 'approvers', 'passwordless'] as const;

async function managementPage(context: PageContext, query: QueryTexts): Promise<Shown> {
  const { users, contributors, clock } = context;
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
  const group = groups.find((name) => name === query.group) ?? 'pending';
  const q = (query.q ?? '').toLowerCase();
  const rows = all
    .filter(belongs[group])
    .filter(({ username, email }) => `${username} ${email}`.toLowerCase().includes(q));
  const links = groups.map((name) => ({
    name: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    href: hrefOf('/user_management', { group: name }),
    current: name === group,
  }));
  const path = '/user_management';
  const more = hiddenFields({ group });
  const main = html`${pageHead({ title: 'Users', actions: tabs('Groups of users', links) })}
${listing({
  id: 'users',
  title: 'Users',
  columns: userColumns(seen, now),
  rows,
  key: ({ username }) => username,
  path,
  query: { ...query, group },
  pageSize: 25,
  hasAll: true,
  order: ['registered', true],
  tools: searchForm({ path, query, name: 'q', label: 'Name or e-mail', more }),
  nothing: group === 'pending' ? 'Nobody waits for an approval.' : 'There is no such user.',
})}`;
  return { title: 'Users', place: path, main };
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
  return email === '' ? '–' : html`<a href="mailto:${email}">${email}</a>`;
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
    ['Tasks at once at one address', decimal(user.machine_limit)],
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
      ...newPassword('New password, if you want one', 'The new password again'),
      { ...secret, name: 'old_password', label: 'Your password now' },
    ],
    values: { email, tests_repo, ...visit.form },
    errors,
    submit: 'Save',
    beside: html`<span class="quiet small">Every change needs your password.</span>`,
    aside: card({ id: 'about', title: 'About this account', body: aboutUser(user) }),
  });
}

async function changeProfile(context: PageContext, visit: Visit) {
  const { users } = context;
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
  let { faults } = hasChange ? await attempt(context, visit, 'user-change', change) : {};
  if (faults === undefined && password !== '') {
    ({ faults } = await attempt(context, visit, 'user-password', { username, password }));
  }
  if (faults !== undefined) return profilePage(visit, user, faults);
  const changed = password === '' ? undefined : await users.find(username);
  // The new password ends all sessions but this one.
  if (changed) sessionOf<PageSession>(visit.request).set('mark', passwordMark(changed));
  return goTo(visit, '/user', 'Your profile was changed.');
}

async function otherPage(
  { clock }: PageContext,
  visit: Visit,
  user: User,
  link?: PasswordLink,
): Promise<Shown> {
  const { username } = user;
  const ask = (name: string, value: string, label: string, danger = false) =>
    html`<form method="post" action="/user/${username}">${tokenField(visit.reply)}
${hiddenFields({ user: username, [name]: value })}${button({ label, danger })}</form>`;
  const age = ago(clock.now() - user.registration_time);
  const actions = user.pending
    ? [ask('pending', '0', 'Accept'), ask('pending', '1', 'Reject and remove', true)]
    : [user.blocked ? ask('blocked', '0', 'Unblock') : ask('blocked', '1', 'Block', true)];
  actions.push(ask('link', '1', 'Make a link for a new password'));
  const more = facts([
    ['E-mail', mailLink(user)],
    ['Repository', user.tests_repo || '–'],
    ['Signed up', age],
  ]);
  const main = html`${pageHead({
    title: username,
    about: userState(user),
    actions: html`${actions}`,
    crumbs: [{ name: 'Users', href: '/user_management' }, { name: username }],
  })}${link && linkCard(link, user)}
<div class="halves">${card({ id: 'person', title: 'Person', body: more })}
${card({ id: 'about', title: 'About this account', body: aboutUser(user) })}</div>`;
  return { title: username, place: '/user_management', main };
}

interface PasswordLink {
  readonly link: string;
  readonly expires: string;
}

function linkCard({ link, expires }: PasswordLink, { username, email }: User): Html {
  const letter = new URLSearchParams({
    subject: `Your account ${username}`,
    body: `Choose a new password here, until ${expires.slice(0, 10)}:\n${link}\n`,
  });
  const href = `mailto:${email}?${letter.toString().replaceAll('+', '%20')}`;
  const send = email !== '' && button({ label: 'Write a letter with it', href });
  const body = html`<div class="stack"><p>Send this link to ${username}. It works once, until
${expires.slice(0, 10)}, and is shown only now.</p>${copyable('password-link', link)}${
    send && html`<div class="row">${send}</div>`
  }</div>`;
  return card({ id: 'link', title: 'A link for a new password', body });
}

/** Accepts, rejects, blocks or unblocks a user, or makes a link for a new password. */
async function decide(context: PageContext, visit: Visit, user: User) {
  const { username } = user;
  const { pending, blocked } = visit.form;
  if (visit.form.link === '1') {
    const { request } = visit;
    const made = await operateAs(context, 'user-link', { username }, actorOf(visit));
    const { link, expires } = made as PasswordLink;
    const base = link.startsWith('/') ? `${request.protocol}://${request.host}` : '';
    return otherPage(context, visit, user, { link: `${base}${link}`, expires });
  }
  const back = '/user_management';
  const run = async (name: string, input: object) =>
    (await attempt(context, visit, name, { username, ...input })).problem;
  if (pending === '0') {
    return goTo(visit, back, (await run('user-approve', {})) ?? `${username} was accepted.`);
  }
  if (pending === '1') {
    return goTo(visit, back, (await run('user-reject', {})) ?? `${username} was removed.`);
  }
  const isBlocked = blocked === '1';
  const problem = await run('user-block', { blocked: isBlocked });
  const done = `${username} is ${isBlocked ? 'blocked' : 'not blocked any more'}.`;
  return goTo(visit, `/user/${username}`, problem ?? done);
}
