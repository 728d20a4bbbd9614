import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { wallClock } from 'spillway';
import { type Html, html, type OperatorAction } from 'spillway-http';
import {
  button,
  card,
  decimal,
  facts,
  field,
  hiddenFields,
  notice,
  pageHead,
} from 'spillway-http/kit';
import type { View } from '../open.ts';
import type { ServiceWatch } from '../service-watch.ts';
import { type FrameOptions, sendPage, sessionOf } from './frame.ts';

/** The part that an operator wants to change. */
export interface Target {
  readonly service: string;
  /** Kind of the part; `service` for the whole. */
  readonly kind: 'lane' | 'pool' | 'bucket' | 'breaker' | 'service';
  readonly part: string;
}

/** The link to the page on which a part is changed, if the service can be asked to change it. */
export function actLink(
  { name: service, silence, reading }: ServiceWatch,
  { kind, part }: Omit<Target, 'service'>,
  label = 'Change…',
): Html {
  const isKnown = kind === 'service' || reading?.changeable?.includes(part) === true;
  if (silence !== undefined || !isKnown) return html``;
  const query = new URLSearchParams({ service, kind, part });
  return button({ label, href: `/act?${query}`, look: 'bare', little: true });
}

interface Choice {
  readonly action: OperatorAction['action'];
  readonly label: string;
  /** Consequence of the action, in one sentence. */
  readonly text: string;
  /** Label of the number that goes with it. @default none */
  readonly number?: string;
  readonly danger?: boolean;
}

const choices: Readonly<Record<string, readonly Choice[]>> = {
  lane: [
    {
      action: 'resize',
      label: 'Resize the lane',
      text: 'A larger limit lets waiters in at once; a smaller one sends nobody out.',
      number: 'New limit',
    },
    {
      action: 'pause',
      label: 'Pause the lane',
      text: 'Nobody is let in until you resume it; those who wait are refused at their deadline.',
      danger: true,
    },
    { action: 'resume', label: 'Resume the lane', text: 'Lets waiters in again.' },
  ],
  pool: [
    {
      action: 'resize',
      label: 'Resize the pool',
      text: 'New workers start at once; surplus ones finish their tasks first.',
      number: 'New number of workers',
    },
    {
      action: 'recycle',
      label: 'Recycle all workers',
      text: 'One after the other is replaced by a warm one, and finishes its tasks first.',
    },
    {
      action: 'pause',
      label: 'Pause the pool',
      text: 'Begins no tasks until you resume it; those that run go on, and deadlines too.',
      danger: true,
    },
    { action: 'resume', label: 'Resume the pool', text: 'Begins tasks again.' },
  ],
  bucket: [
    {
      action: 'resize',
      label: 'Change the rate',
      text: 'Holds from now on, also for those who wait.',
      number: 'New rate per second',
    },
  ],
  breaker: [
    {
      action: 'open',
      label: 'Hold it open',
      text: 'Refuses every call at once, until you release it.',
      danger: true,
    },
    {
      action: 'close',
      label: 'Hold it closed',
      text: 'Lets every call pass and judges none, until you release it.',
      danger: true,
    },
    { action: 'release', label: 'Release it', text: 'Its own rule decides again.' },
  ],
  service: [
    {
      action: 'drain',
      label: 'Drain the service',
      text: 'It takes no new work, finishes what it has begun and ends; its supervisor starts it.',
      danger: true,
    },
  ],
};

/** The page on which an operator changes one part, and the form behind it. */
export function addActions(app: FastifyInstance, options: FrameOptions): void {
  const { view } = options;
  const show = (reply: FastifyReply, target: Target, outcome?: Outcome) => {
    const main = actView(target, view(), { token: reply.csrfToken(), outcome });
    return sendPage(reply, { title: `Change ${target.part || target.service}`, main }, options);
  };
  app.get('/act', async (request, reply) => {
    const { done } = request.query as { readonly done?: string };
    const target = targetOf(request.query);
    const choice = choices[target.kind]?.find(({ action }) => action === done);
    const outcome = choice && { isDone: true, text: `${choice.label}: done.` };
    return show(reply, target, outcome);
  });
  app.post('/act', async (request, reply) => {
    const target = targetOf(request.body);
    const service = view().services.find(({ name }) => name === target.service);
    const action = actionOf(request, target);
    if (service === undefined) return reply.redirect('/', 303);
    const problem = await service.act(action);
    if (problem !== undefined) {
      return show(reply.code(409), target, { isDone: false, text: problem });
    }
    const { events } = view();
    const size = action.value === undefined ? '' : ` to ${action.value}`;
    const text = `${target.kind} ${target.part}: ${action.action}${size}, by ${action.by}`;
    events.add({ service: service.name, at: wallClock.now(), state: 'done', text });
    const query = new URLSearchParams({ ...target, done: action.action });
    return reply.redirect(`/act?${query}`, 303);
  });
}

function targetOf(fields: unknown): Target {
  const { service, kind, part } = Object(fields);
  const known = Object.hasOwn(choices, kind) ? kind : 'service';
  return { service: String(service ?? ''), kind: known, part: String(part ?? '') };
}

function actionOf(request: FastifyRequest, { kind, part }: Target): OperatorAction {
  const { action, value } = Object(request.body);
  const number = value === undefined || value === '' ? undefined : Number(value);
  const by = `console, session ${sessionOf(request).slice(0, 6)} from ${request.ip}`;
  return { action, part: kind === 'service' ? undefined : part, value: number, by };
}

interface Outcome {
  readonly isDone: boolean;
  readonly text: string;
}

interface ActViewOptions {
  readonly token: string;
  readonly outcome: Outcome | undefined;
}

function actView(target: Target, view: View, { token, outcome }: ActViewOptions): Html {
  const { service: name, kind, part } = target;
  const service = view.services.find((each) => each.name === name);
  const title = kind === 'service' ? name : `${kind} ${part}`;
  const about = html`<a href="/?service=${name}">Back to ${name}</a>`;
  const told =
    outcome !== undefined &&
    notice({
      verdict: outcome.isDone ? 'Changed.' : 'Nothing was changed.',
      text: outcome.text,
      tone: outcome.isDone ? 'good' : 'bad',
    });
  const forms = (choices[kind] ?? []).map((choice) => form(choice, target, token));
  return html`<div class="stack">${pageHead({ title: `Change ${title}`, about })}
${told}
${service !== undefined && card({ id: 'present', title: 'Now', body: present(service, target) })}
<div class="choices">${forms}</div></div>`;
}

function form({ action, label, text, number, danger }: Choice, target: Target, token: string) {
  const input =
    number !== undefined &&
    field({ name: 'value', label: number, type: 'number', numeric: true, required: true });
  const look = number === undefined ? 'plain' : 'main';
  const body = html`<form class="stack" method="post" action="/act">
${hiddenFields({ _csrf: token, action, ...target })}
<p>${text}</p>${input}
<div class="row">${button({ label, look, danger })}</div></form>`;
  return card({ id: `act-${action}`, title: label, body });
}

/** The numbers of the part that a change would move. */
function present({ reading }: ServiceWatch, { kind, part }: Target): Html {
  const parts = reading?.parts;
  const named = <T extends { readonly name: string }>(list: readonly T[] = []) =>
    list.find(({ name }) => name === part);
  const lane = kind === 'lane' ? named(parts?.lanes) : undefined;
  if (lane !== undefined) {
    return facts([
      ['Limit', lane.limit === 0 ? 'paused' : decimal(lane.limit)],
      ['Inside', decimal(lane.inside)],
      ['Waiting', decimal(lane.waiting)],
      ['Kept busy by Little’s law', decimal(lane.insideByLittle, 1)],
    ]);
  }
  const bucket = kind === 'bucket' ? named(parts?.buckets) : undefined;
  if (bucket !== undefined) {
    return facts([
      ['Rate per second', decimal(bucket.ratePerSecond, 1)],
      ['Waiting', decimal(bucket.waiting)],
    ]);
  }
  const breaker = kind === 'breaker' ? named(parts?.breakers) : undefined;
  if (breaker !== undefined) {
    const held = breaker.held === true ? `held ${breaker.state}` : breaker.state;
    return facts([
      ['State', held],
      ['Calls', decimal(breaker.calls)],
      ['Failed', decimal(breaker.failures)],
    ]);
  }
  const pool = kind === 'pool' ? named(parts?.pools) : undefined;
  if (pool !== undefined) {
    return facts([
      ['Workers', decimal(pool.workers.length)],
      ['Recycled so far', decimal(pool.recycled)],
    ]);
  }
  return facts([
    ['Lanes', decimal(parts?.lanes.length)],
    ['Routes', decimal(reading?.routes.length)],
  ]);
}
