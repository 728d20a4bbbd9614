import type { FastifyInstance } from 'fastify';
import { Bucket, SpillwayError } from 'spillway';
import { type Html, html, httpError, sessionOf } from 'spillway-http';
import {
  button,
  card,
  type FieldOptions,
  field,
  hiddenFields,
  notice,
  pageHead,
  tick,
  wrongFields,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';
import type { QueryTexts } from '../read/answers.ts';
import { isPasswordLink } from '../users/password.ts';
import type { User } from '../users/users.ts';
import type { PageContext } from './pages.ts';
import {
  addPage,
  type FieldErrors,
  goTo,
  type PageSession,
  type Shown,
  tokenField,
  type Visit,
} from './visit.ts';

const passwordMin = 8;
const passwordMax = 72;
const rememberSeconds = 400 * 86_400;

/** Log in, log out and sign up. */
export function accountPages(app: FastifyInstance, context: PageContext): void {
  const { users, clock } = context;
  const signUps = new Bucket({ ratePerSecond: 0.2, burst: 10, queueMax: 0, clock });
  const noStore = true;

  addPage(app, context, '/login', {
    noStore,
    get: async (visit) => (visit.person ? goTo(visit, '/tests') : loginPage(visit)),
    post: async (visit) => {
      const { username = '', password = '', stay_logged_in: stay } = visit.form;
      try {
        await users.admit({ username, password, address: visit.request.ip }, visit);
      } catch (error) {
        const isRefusal = error instanceof SpillwayError && error.code === 'ACCESS_REFUSED';
        if (!isRefusal) throw error;
        return loginPage(visit, error.message);
      }
      const session = sessionOf<PageSession>(visit.request);
      session.regenerate();
      session.set('user', username);
      session.remember(stay !== undefined);
      const choice = `login_remember_me=${stay === undefined ? 0 : 1}`;
      const cookie = `${choice}; Path=/; Max-Age=${rememberSeconds}; SameSite=Lax`;
      visit.reply.header('set-cookie', cookie);
      return goTo(visit, localPath(visit.query.next));
    },
  });

  addPage(app, context, '/logout', {
    noStore,
    post: async (visit) => {
      sessionOf<PageSession>(visit.request).clear();
      return goTo(visit, '/tests');
    },
  });

  passwordPages(app, context);

  addPage(app, context, '/signup', {
    noStore,
    get: async (visit) => (visit.person ? goTo(visit, '/tests') : signUpPage(visit)),
    post: async (visit) => {
      const errors = signUpErrors(visit.form);
      if (Object.keys(errors).length > 0) return signUpPage(visit, errors);
      if (!signUps.tryTake(1)) {
        throw httpError('RATE_EXCEEDED', 'too many accounts are being made', {
          retryAfterMs: 10_000,
        });
      }
      const { username = '', password = '', email = '', tests_repo: testsRepo = '' } = visit.form;
      try {
        await users.add({ username, password, email, testsRepo, pending: true }, username);
      } catch (error) {
        if (!(error instanceof SpillwayError) || error.code !== 'USER_EXISTS') throw error;
        return signUpPage(visit, { username: 'This name is taken. Choose another one.' });
      }
      return goTo(visit, '/login', `${username} waits for an approver. You can log in after that.`);
    },
  });
}

/** Choosing a new password by a link that an approver has sent. */
function passwordPages(app: FastifyInstance, context: PageContext): void {
  const { users, storage, clock } = context;
  const userOf = async ({ request, signal }: Visit): Promise<User> => {
    const { name, token } = request.params as { name: string; token: string };
    const user = await users.find(name, signal);
    const key = await storage.secretKey();
    if (user !== undefined && isPasswordLink(key, user, token, clock.now())) return user;
    const text = 'This link is not valid any more. Ask an approver for a new one.';
    throw fleetError('RECORD_UNKNOWN', text);
  };
  addPage(app, context, '/password/:name/:token', {
    noStore: true,
    get: async (visit) => newPasswordPage(visit, await userOf(visit)),
    post: async (visit) => {
      const user = await userOf(visit);
      const { password = '', password2 = '' } = visit.form;
      const errors = passwordErrors(password, password2, user.username, user.email);
      if (Object.keys(errors).length > 0) return newPasswordPage(visit, user, errors);
      await users.setPassword(user.username, password, user.username);
      return goTo(visit, '/login', 'Your new password is set. Log in with it.');
    },
  });
}

function newPasswordPage(visit: Visit, { username }: User, errors: FieldErrors = {}): Shown {
  const body = html`<form class="form" method="post" action="">${tokenField(visit.reply)}
${hiddenFields({ username })}
${newSecret('password', 'New password', errors, passwordHint)}
${newSecret('password2', 'The same password again', errors)}
<div class="row">${button({ label: 'Set the password', look: 'main' })}
<span class="quiet small">Your workers need it too.</span></div></form>`;
  const title = `A password for ${username}`;
  const main = html`<div class="narrow">${pageHead({ title })}${wrongFields(errors)}
${card({ id: 'account', title: 'Your account', body })}</div>`;
  return { title, status: Object.keys(errors).length > 0 ? 422 : 200, main };
}

const passwordHint = `At least ${passwordMin} characters, and not your name.`;

function newSecret(name: string, label: string, errors: FieldErrors, hint?: string): Html {
  return field({
    name,
    label,
    hint,
    error: errors[name],
    type: 'password',
    autocomplete: 'new-password',
    required: true,
  });
}

/** A path of this site; the home page for anything else. */
function localPath(next: string | undefined): string {
  // Parsed as browsers do, who drop tabs and take a backslash for a slash.
  const here = 'http://here.invalid';
  const url = next?.startsWith('/') ? URL.parse(next, here) : null;
  return url?.origin === here ? url.pathname + url.search : '/tests';
}

export function loginPage(visit: Visit, problem?: string, status = 200): Shown {
  const { reply, form, query, request } = visit;
  const remembers = !/login_remember_me=0/.test(request.headers.cookie ?? '');
  const next = query.next === undefined ? '' : `?next=${encodeURIComponent(query.next)}`;
  const text = (name: string, label: string, more: Partial<FieldOptions>) =>
    field({ name, label, required: true, ...more });
  const body = html`<form class="form" method="post" action="/login${next}">${tokenField(reply)}
${text('username', 'User name', { value: form.username, autocomplete: 'username' })}
${text('password', 'Password', { type: 'password', autocomplete: 'current-password' })}
${tick({ name: 'stay_logged_in', label: 'Stay logged in on this machine', checked: remembers })}
<div class="row">${button({ label: 'Log in', look: 'main' })}
<a href="/signup">Make an account</a></div></form>`;
  return { title: 'Log in', status, main: narrow('Log in', body, problem) };
}

function narrow(title: string, body: Html, problem?: string): Html {
  const told =
    problem !== undefined && notice({ verdict: 'Not done.', text: problem, tone: 'bad' });
  return html`<div class="narrow">${pageHead({ title })}${told}
${card({ id: 'account', title: 'Your account', body })}</div>`;
}

function signUpPage(visit: Visit, errors: FieldErrors = {}): Shown {
  const { reply, form } = visit;
  const text = (name: string, label: string, more: object = {}) =>
    field({ name, label, value: form[name], error: errors[name], ...more });
  const body = html`<form class="form" method="post" action="/signup">${tokenField(reply)}
${text('username', 'User name', { hint: 'Letters and digits.', required: true })}
${newSecret('password', 'Password', errors, passwordHint)}
${newSecret('password2', 'The same password again', errors)}
${text('email', 'E-mail', { hint: 'Approvers see it, nobody else does.', type: 'email' })}
${text('tests_repo', 'Repository of your branches', {
  hint: 'Such as https://github.com/you/Stockfish. You can set it later.',
})}
<div class="row">${button({ label: 'Sign up', look: 'main' })}
<span class="quiet small">An approver looks at each new account.</span></div></form>`;
  const isWrong = Object.keys(errors).length > 0;
  const main = html`<div class="narrow">${pageHead({ title: 'Sign up' })}${wrongFields(errors)}
${card({ id: 'account', title: 'A new account', body })}</div>`;
  return { title: 'Sign up', status: isWrong ? 422 : 200, main };
}

/** Reasons for which a password will not do; undefined if it will. */
function passwordFault(password: string, username: string, email: string): string | undefined {
  if (password.length < passwordMin) return `Use at least ${passwordMin} characters.`;
  if (password.length > passwordMax) return `Use at most ${passwordMax} characters.`;
  const plain = password.toLowerCase();
  const names = [username, email.split('@')[0] ?? ''].filter((name) => name.length > 2);
  if (names.some((name) => plain.includes(name.toLowerCase()))) {
    return 'Leave your name and your address out of it.';
  }
  return new Set(plain).size < 5 ? 'Use more different characters.' : undefined;
}

/** Faults of a new password that was typed twice, by field. */
export function passwordErrors(
  password: string,
  again: string,
  username: string,
  email: string,
): Record<string, string> {
  const fault = passwordFault(password, username, email);
  if (fault !== undefined) return { password: fault };
  return password === again ? {} : { password2: 'This is not the password above.' };
}

function signUpErrors(form: QueryTexts): Record<string, string> {
  const { username = '', password = '', password2 = '', email = '', tests_repo = '' } = form;
  const errors: Record<string, string> = {};
  if (!patterns.username.test(username) || username.length > 64) {
    errors.username = 'Use 2 to 64 letters and digits.';
  }
  Object.assign(errors, passwordErrors(password, password2, username, email));
  if (!/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(email) || email.length > 200) {
    errors.email = 'Use an address like you@example.org.';
  }
  if (tests_repo !== '' && !patterns.githubRepo.test(tests_repo)) {
    errors.tests_repo = 'Use an address like https://github.com/you/Stockfish, or nothing.';
  }
  return errors;
}
