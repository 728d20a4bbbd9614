import type { FastifyReply, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { html, sessionOf } from 'spillway-http';
import { button, card, facts, notice } from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';
import { passwordMark } from '../users/password.ts';
import type { User } from '../users/users.ts';
import { formPage } from './form.ts';
import { keep } from './remembered.ts';
import type { Pages } from './routes.ts';
import type { PageSession, Shown, Visit } from './visit.ts';

/** Log-in and log-out. A form that was sent without a session is shown again after the log-in. */
export const loginPages: Pages = {
  '/login': {
    noStore: true,
    get: (visit) => (visit.person ? visit.goTo('/tests') : loginPage(visit)),
    post: logIn,
  },
  '/logout': {
    noStore: true,
    post: async (visit) => {
      sessionOf<PageSession>(visit.request).clear();
      return visit.goTo('/tests');
    },
  },
};

async function logIn(visit: Visit): Promise<Shown | FastifyReply> {
  const { request, reply, form } = visit;
  const { username = '', password = '', stay_logged_in: stay } = form;
  let user: User;
  try {
    user = await visit.context.users.admit({ username, password, address: request.ip }, visit);
  } catch (error) {
    const isRefusal = error instanceof SpillwayError && error.code === 'ACCESS_REFUSED';
    if (!isRefusal) throw error;
    return loginPage(visit, error.message);
  }
  const session = sessionOf<PageSession>(request);
  session.regenerate();
  session.set('user', username);
  session.set('mark', passwordMark(user));
  session.remember(stay !== undefined);
  keep(reply, 'login_remember_me', stay === undefined ? 0 : 1);
  const kept = pendingForm(form);
  if (kept === undefined) return visit.goTo(localPath(visit.query.next));
  request.person = user;
  return keptPage(visit, kept);
}

function loginPage(
  visit: Visit,
  problem?: string,
  more: { readonly status?: number; readonly kept?: PendingForm | undefined } = {},
): Shown {
  const { form, query, request } = visit;
  const { status = 200, kept = pendingForm(form) } = more;
  const isRemembered = !/login_remember_me=0/.test(request.headers.cookie ?? '');
  const next = query.next === undefined ? '' : `?next=${encodeURIComponent(query.next)}`;
  const text = { required: true, autocomplete: 'username' } as const;
  const secret = { required: true, type: 'password', autocomplete: 'current-password' } as const;
  return formPage({
    visit,
    title: 'Log in',
    card: { id: 'account', title: 'Your account' },
    action: `/login${next}`,
    ...(kept && {
      hidden: { kept_path: kept.path, kept_fields: JSON.stringify(kept.fields) },
    }),
    fields: [
      { ...text, name: 'username', label: 'User name' },
      { ...secret, name: 'password', label: 'Password' },
      { name: 'stay_logged_in', label: 'Stay logged in on this machine', isTick: true },
    ],
    values: { username: form.username, stay_logged_in: isRemembered ? 'on' : undefined },
    errors: problem === undefined ? {} : { '': problem },
    submit: 'Log in',
    beside: html`<a href="/signup">Make an account</a>`,
    status,
  });
}

/** A path of this site; the home page for anything else. */
function localPath(next: string | undefined): string {
  // Parsed as in browsers, which drop tabs and treat a backslash as a slash.
  const here = 'http://here.invalid';
  const url = next?.startsWith('/') ? URL.parse(next, here) : null;
  // `/.//host` is a path here, and would be sent as `//host`.
  const isHere = url?.origin === here && !url.pathname.startsWith('//');
  return isHere ? url.pathname + url.search : '/tests';
}

/** A form that was sent without a session. */
interface PendingForm {
  /** Address that it was sent to. */
  readonly path: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
}

/** The form that was sent together with a log-in, if there is one. */
function pendingForm({ kept_path, kept_fields = '[]' }: QueryTexts): PendingForm | undefined {
  if (kept_path === undefined || !URL.canParse(kept_path, 'http://here.invalid')) return undefined;
  try {
    const fields = Object.entries(Object.fromEntries(JSON.parse(kept_fields)));
    return {
      path: localPath(kept_path),
      fields: fields.map(([name, value]) => [name, `${value}`]),
    };
  } catch {
    return undefined;
  }
}

/** Shows a form that was filled in before the log-in, to be checked and sent. */
function keptPage(visit: Visit, { path, fields }: PendingForm): Shown {
  return formPage({
    visit,
    title: 'Your form, not sent yet',
    card: { id: 'kept', title: `What you typed for ${path}` },
    action: path,
    fields: fields.map(([name, value]) => ({
      name,
      label: name,
      isTick: value === 'on',
      rows: value.length > 60 || value.includes('\n') ? 5 : undefined,
    })),
    values: Object.fromEntries(fields),
    submit: 'Send it',
    beside: html`<a href="/tests">Leave it</a>`,
  });
}

/**
 * The answer to a form with a wrong token: its values and a link back to it; without a session the
 * log-in, as in fishtest.
 */
export function refusedForm(visit: Visit, status: number): Shown {
  if (visit.person === undefined) return loginAgain(visit, status);
  const verdict = 'Nothing was changed.';
  const text = 'The form was too old, or sent from another site. Please try again.';
  const typed = typedIn(visit);
  const back = pageOf(visit.request)?.href ?? '/tests';
  const body = html`<div class="stack"><p>Copy what you need, and send the form again.</p>
${facts(typed)}</div>`;
  const main = html`${notice({
    verdict,
    text,
    tone: 'bad',
    action: button({ label: 'Back', href: back }),
  })}
${typed.length > 0 && card({ id: 'typed', title: 'What you sent', body })}`;
  return { title: 'The form was not taken', look: 'narrow', main, status };
}

/** The longest form that is kept until a log-in, in characters. */
const keptMax = 200_000;

/** The log-in, after which the form that was sent is shown again. */
export function loginAgain(visit: Visit, status: number): Shown {
  const { url } = visit.request;
  const fields = /^\/(login|signup)\b/.test(url) ? [] : typedIn(visit);
  const isKept = fields.length > 0 && JSON.stringify(fields).length <= keptMax;
  const text = isKept
    ? 'Nothing was sent: you are not logged in. Log in, and your form is shown again.'
    : 'The form was too old, or sent from another site. Please try again.';
  const kept = isKept ? { path: url, fields } : undefined;
  return loginPage(visit, text, { status, kept });
}

/** Fields of a form that was filled in on a page of this site, without secrets. */
export function typedIn({ request, form }: Visit): [name: string, value: string][] {
  if (pageOf(request) === undefined) return [];
  return Object.entries(form).filter((entry): entry is [string, string] => {
    return Boolean(entry[1]) && !/password|csrf_token/.test(entry[0]);
  });
}

/** The page of this site that a form was on; other sites must not choose what is shown. */
function pageOf({ headers, host }: FastifyRequest): URL | undefined {
  const from = URL.parse(headers.referer ?? '');
  return from?.host === host ? from : undefined;
}
