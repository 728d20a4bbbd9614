import type { FastifyReply, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { type Html, type HtmlValue, html, type Session } from 'spillway-http';
import {
  button,
  type FramedPageOptions,
  framedPage,
  hiddenFields,
  type PageHeadOptions,
  type PlaceLink,
  pageHead,
  toasts,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import { type FieldFault, InputError } from '../operations/fields.ts';
import { operate } from '../operations/operations.ts';
import { patterns } from '../protocol/patterns.ts';
import { type QueryTexts, queryTexts } from '../read/answers.ts';
import { passwordMark } from '../users/password.ts';
import { approversGroup, type User, type Users } from '../users/users.ts';
import type { Run } from '../world/run.ts';
import type { PageContext } from './pages.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The user who is logged in; null if nobody is. */
    person: User | null;
  }
}

/** Data of a session. */
export interface PageSession {
  user: string;
  /** The {@link passwordMark} of the user at the log-in. */
  mark: string;
}

/** The user of a session, or undefined if it is no longer valid, as after a new password. */
export async function userOfSession(
  users: Users,
  session: Session<PageSession>,
): Promise<User | undefined> {
  const name = session.get('user');
  if (name === undefined) return undefined;
  const isRight = (user: User | undefined) =>
    user !== undefined &&
    !user.blocked &&
    !user.pending &&
    passwordMark(user) === session.get('mark');
  const recent = await users.recent(name);
  if (isRight(recent)) return recent;
  // Another instance may have changed the password since this one read the user.
  const user = await users.find(name);
  return isRight(user) ? user : undefined;
}

/** The content of a page, without its frame. */
export interface Shown {
  readonly title: string;
  /** Address of the place in the navigation that the page belongs to. */
  readonly place?: string | undefined;
  /** Text and buttons beside the title; null if the content has a head of its own. */
  readonly head?: Partial<PageHeadOptions> | null | undefined;
  readonly main: HtmlValue;
  /** Layout of title and content: one narrow column, or with gaps. @default neither */
  readonly look?: 'narrow' | 'stack' | undefined;
  /** @default 200 */
  readonly status?: number | undefined;
  /** True if the page changes while it is open. @default false */
  readonly live?: boolean | undefined;
  readonly scripts?: readonly string[] | undefined;
}

/** The visitors that may open a page. */
export type Visitors = 'all' | 'user' | 'approver';

/** One request for a page. */
export class Visit {
  readonly context: PageContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly query: QueryTexts;
  /** The fields of a form that was sent. */
  readonly form: QueryTexts;

  constructor(context: PageContext, request: FastifyRequest, reply: FastifyReply) {
    this.context = context;
    this.request = request;
    this.reply = reply;
    this.query = queryTexts(request.query);
    this.form = queryTexts(request.body);
  }

  get person(): User | undefined {
    return this.request.person ?? undefined;
  }

  get isApprover(): boolean {
    return isApprover(this.person);
  }

  /** The variable parts of the path. */
  get params(): Readonly<Record<string, string>> {
    return this.request.params as Record<string, string>;
  }

  get signal(): AbortSignal {
    return this.request.permit.signal;
  }

  /** The hidden field that every form needs. */
  get token(): Html {
    return hiddenFields({ csrf_token: this.reply.csrfToken() });
  }

  /** Redirects, and leaves a message for the next page. */
  goTo(url: string, text?: string): FastifyReply {
    if (text !== undefined) this.request.session.flash({ kind: 'info', text });
    return this.reply.redirect(url, 302);
  }

  /** Redirects a visitor without the permission to the login or home page, with a message. */
  refusalFor(wanted: Visitors): FastifyReply | undefined {
    const { request, reply } = this;
    if (wanted === 'all' || (wanted === 'user' && this.person) || this.isApprover) return undefined;
    const isNobody = this.person === undefined;
    const text = isNobody ? 'Please log in first.' : 'Only approvers can see that page.';
    request.session.flash({ kind: 'error', text });
    const url = isNobody ? `/login?next=${encodeURIComponent(request.url)}` : '/tests';
    return reply.redirect(url, 302);
  }

  /**
   * Runs an operation for the visitor. A refusal is returned: `faults` has its reasons by field,
   * under the empty name those about no field, and `problem` is all of them as one text. Other
   * failures are thrown.
   */
  async attempt(name: string, input: object): Promise<Attempt> {
    try {
      const actor = { username: this.person?.username ?? '', isApprover: this.isApprover };
      return { value: await operate(this.context, name, input, actor) };
    } catch (error) {
      const faults = faultsOf(error);
      if (faults === undefined) throw error;
      return { faults, problem: Object.values(faults).join(' ') };
    }
  }

  /** The whole page, or only its content if a script asks for a part. */
  framed({ title, place, head, main, look, status = 200, live, scripts }: Shown): Html {
    const { context, request, reply } = this;
    if (status !== 200) reply.code(status);
    reply.header('vary', 'HX-Request');
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-cache, private');
    const whole = html`${head !== null && pageHead({ title, ...head })}
${main}`;
    const content = look === undefined ? whole : html`<div class="${look}">${whole}</div>`;
    if (isFragment(request)) return content;
    const messages = request.session.takeFlash();
    return framedPage({
      ...frameOf(this, place),
      title: `${title} · Fleet`,
      main: content,
      live,
      scripts,
      styles: [context.style],
      meta: { 'csrf-token': reply.csrfToken() },
      toasts: messages.length > 0 && toasts(messages),
    });
  }
}

/** A run with all its tasks; throws `RECORD_UNKNOWN`. */
export async function runOf(
  { context, signal }: Pick<Visit, 'context' | 'signal'>,
  id: string,
): Promise<Run> {
  const { primary, storage } = context;
  const isId = patterns.runId.test(id);
  if (isId && primary.isPrimary) await primary.recall(id, { signal });
  const stored = () => storage.run(id, signal);
  const run = isId ? (primary.isPrimary ? primary.world.run(id) : await stored()) : undefined;
  if (run === undefined) throw fleetError('RECORD_UNKNOWN', 'There is no run at this address');
  return run;
}

export function isApprover(user: User | null | undefined): boolean {
  return user?.groups.includes(approversGroup) === true;
}

/** True if the script of an open page asks for a part of it. */
export function isFragment({ headers }: FastifyRequest): boolean {
  return headers['hx-request'] === 'true' && headers['sec-fetch-mode'] !== 'navigate';
}

/** The frame of all pages: the navigation and the visitor's account. */
export function frameOf(
  visit: Visit,
  place?: string,
): Pick<FramedPageOptions, 'services' | 'places' | 'home' | 'tools'> {
  const { machines, pendingUsers } = visit.context.figures;
  const link = (name: string, href: string, count?: number): PlaceLink => ({
    name,
    href,
    current: href === place,
    ...(count !== undefined && count > 0 && { count: String(count) }),
  });
  const places = [
    link('Runs', '/tests'),
    link('New run', '/tests/run'),
    link('Machines', '/tests/machines', machines),
    link('Events', '/actions'),
    link('Contributors', '/contributors'),
    link('Nets', '/nns'),
    link('SPRT calculator', '/sprt_calc'),
    link('Blocked workers', '/workers/show'),
    ...(visit.isApprover ? [link('Users', '/user_management', pendingUsers)] : []),
    link('Rate limits', '/rate_limits'),
  ];
  const services = [{ name: 'Fleet', href: '/tests', current: true }];
  return { services, places, home: '/tests', tools: accountTools(visit) };
}

function accountTools({ person, token }: Visit): Html {
  if (person === undefined) {
    return html`<a href="/login">Log in</a><a class="long" href="/signup">Sign up</a>`;
  }
  return html`<a href="/user">${person.username}</a>
<form method="post" action="/logout">${token}
${button({ label: 'Log out', look: 'bare', little: true })}</form>`;
}

/** Messages beside the fields of a form, by the name of the field. */
export type FieldErrors = Readonly<Record<string, string>>;

/** The first complaint about each field. */
export function complaintsOf(faults: readonly FieldFault[]): FieldErrors {
  const entries = faults.map(({ field, message }) => [field, sentence(message)] as const);
  return Object.fromEntries(entries.toReversed());
}

/**
 * Complaints of a refusal by field, under the empty name those about the whole input; undefined for
 * other failures.
 */
function faultsOf(error: unknown): FieldErrors | undefined {
  if (error instanceof InputError) return complaintsOf(error.faults);
  const isRefusal = error instanceof SpillwayError && error.code === 'REQUEST_REFUSED';
  return isRefusal ? { '': sentence(error.message) } : undefined;
}

interface Attempt {
  readonly value?: unknown;
  readonly faults?: FieldErrors;
  readonly problem?: string;
}

function sentence(text: string): string {
  // The field still shows the value, so the complaint need not repeat it.
  const plain = text.replace(/^(id|by): /, '').replace(/, got .*$/s, '');
  const start = plain.charAt(0).toUpperCase() + plain.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}
