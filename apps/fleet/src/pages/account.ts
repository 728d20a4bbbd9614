import type { FastifyReply } from 'fastify';
import { SpillwayError } from 'spillway';
import { html, httpError, sessionOf } from 'spillway-http';
import { fleetError } from '../errors.ts';
import { type FieldFault, readFields } from '../operations/fields.ts';
import { emailField, newName, repositoryField } from '../operations/user-operations.ts';
import type { QueryTexts } from '../read/answers.ts';
import { isPasswordLink, newPasswordMax } from '../users/password.ts';
import type { User } from '../users/users.ts';
import { type FormField, fieldsOf, formPage } from './form.ts';
import type { Pages } from './routes.ts';
import {
  complaintsOf,
  type FieldErrors,
  type PageSession,
  type Shown,
  type Visit,
} from './visit.ts';

const passwordMin = 8;
/** Fields of a new account; unlike an account for a program, it needs an address. */
const signUpFields = {
  username: newName,
  email: { ...emailField, absent: undefined, holds: isAddress },
  tests_repo: repositoryField,
};

function isAddress(text: string): boolean {
  return /[^@]\.[^@.]+$/.test(text) && emailField.holds?.(text) === true;
}

/** Sign-up, and the choice of a new password by a link from an approver. */
export const accountPages: Pages = {
  '/signup': {
    noStore: true,
    get: (visit) => (visit.person ? visit.goTo('/tests') : signUpPage(visit)),
    post: signUp,
  },
  '/password/:name/:token': {
    noStore: true,
    get: async (visit) => newPasswordPage(visit, await userOfLink(visit)),
    post: async (visit) => {
      const user = await userOfLink(visit);
      const errors = passwordErrors(visit.form, user.username, user.email);
      if (Object.keys(errors).length > 0) return newPasswordPage(visit, user, errors);
      const { password = '' } = visit.form;
      await visit.context.users.setPassword(user.username, password, user.username);
      if (visit.person?.username === user.username) {
        sessionOf<PageSession>(visit.request).clear();
      }
      return visit.goTo('/login', 'Your new password is set. Log in with it.');
    },
  },
};

async function signUp(visit: Visit): Promise<Shown | FastifyReply> {
  const { users, signUps } = visit.context;
  const { account, errors } = readSignUp(visit.form);
  if (Object.keys(errors).length > 0) return signUpPage(visit, errors);
  if (!signUps.tryTake(1)) {
    const text = 'too many accounts are being made';
    throw httpError('RATE_EXCEEDED', text, { retryAfterMs: 10_000 });
  }
  const { username } = account;
  const { password = '' } = visit.form;
  try {
    await users.add({ ...account, password, pending: true }, username);
  } catch (error) {
    if (!(error instanceof SpillwayError) || error.code !== 'USER_EXISTS') throw error;
    return signUpPage(visit, { username: 'This name is taken. Choose another one.' });
  }
  return visit.goTo('/login', `${username} waits for an approver. You can log in after that.`);
}

async function userOfLink({ context, params, signal }: Visit): Promise<User> {
  const { users, storage, clock } = context;
  const { name = '', token = '' } = params;
  const user = await users.find(name, signal);
  const key = await storage.secretKey();
  if (user !== undefined && isPasswordLink(key, user, token, clock.now())) return user;
  const text = 'This link is not valid any more. Ask an approver for a new one.';
  throw fleetError('RECORD_UNKNOWN', text);
}

function newPasswordPage(visit: Visit, { username }: User, errors: FieldErrors = {}): Shown {
  return formPage({
    visit,
    title: `A password for ${username}`,
    card: { id: 'account', title: 'Your account' },
    hidden: { username },
    fields: newPassword('New password', 'The same password again', true),
    values: {},
    errors,
    submit: 'Set the password',
    beside: html`<span class="quiet small">Your workers need it too.</span>`,
  });
}

/** The two fields of a new password. */
export function newPassword(label: string, again: string, required = false): FormField[] {
  const common = { type: 'password', autocomplete: 'new-password', required } as const;
  const hint = `At least ${passwordMin} characters, and not your name.`;
  return [
    { ...common, name: 'password', label, hint },
    { ...common, name: 'password2', label: again },
  ];
}

function signUpPage(visit: Visit, errors: FieldErrors = {}): Shown {
  const [username, email, repo] = fieldsOf(signUpFields, {
    username: { required: true },
    email: { type: 'email', required: true },
    tests_repo: {},
  }) as [FormField, FormField, FormField];
  const secrets = newPassword('Password', 'The same password again', true);
  return formPage({
    visit,
    title: 'Sign up',
    card: { id: 'account', title: 'A new account' },
    action: '/signup',
    fields: [username, ...secrets, email, repo],
    values: visit.form,
    errors,
    submit: 'Sign up',
    beside: html`<span class="quiet small">An approver looks at each new account.</span>`,
  });
}

/** Reasons for which a password will not do; undefined if it will. */
function passwordFault(password: string, username: string, email: string): string | undefined {
  if (password.length < passwordMin) return `Use at least ${passwordMin} characters.`;
  if (password.length > newPasswordMax) return `Use at most ${newPasswordMax} characters.`;
  const plain = password.toLowerCase();
  const names = [username, email.split('@')[0] ?? ''].filter((name) => name.length > 2);
  if (names.some((name) => plain.includes(name.toLowerCase()))) {
    return 'Leave your name and your address out of it.';
  }
  return new Set(plain).size < 5 ? 'Use more different characters.' : undefined;
}

/** Faults of a new password that was typed twice, by field. */
export function passwordErrors(form: QueryTexts, username: string, email: string): FieldErrors {
  const { password = '', password2 } = form;
  const fault = passwordFault(password, username, email);
  if (fault !== undefined) return { password: fault };
  return password === password2 ? {} : { password2: 'This is not the password above.' };
}

/** The new account that a form asks for, and what is wrong with it. */
function readSignUp(form: QueryTexts) {
  const { username = '', email = '', tests_repo } = form;
  const faults: FieldFault[] = [];
  const account = readFields(signUpFields, { username, email, tests_repo }, faults);
  const wrong = passwordErrors(form, account.username, account.email);
  const errors: FieldErrors = { ...complaintsOf(faults), ...wrong };
  return { account, errors };
}
