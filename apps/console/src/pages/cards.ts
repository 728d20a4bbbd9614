import type { WorkerStats } from 'spillway';
import { type Html, html } from 'spillway-http';
import {
  bytes,
  card,
  decimal,
  duration,
  facts,
  meter,
  percent,
  type StateName,
  state,
  table,
  unknown,
} from 'spillway-http/kit';
import type { ConsoleEvent } from '../events.ts';
import type {
  BacklogReading,
  BreakerReading,
  BucketReading,
  HarvestReading,
  LeaseReading,
  PoolReading,
} from '../parts.ts';
import type { ServiceWatch } from '../service-watch.ts';
import { actLink } from './act.ts';
import { burstChart } from './budget.ts';

/** Each pool with its workers. */
export function poolCard(service: ServiceWatch, pools: readonly PoolReading[]): Html {
  const body = pools.map((pool) => {
    const { name, workers, waiting, version } = pool;
    const busy = workers.filter((worker) => worker.utilisation > 0.5).length;
    const counts = `${workers.length} workers, ${busy} busy · ${decimal(waiting)} wait`;
    const words = `${counts} · snapshot ${decimal(version)}`;
    return html`<div class="spread pool-name"><b>${name}</b>
<span class="quiet small">${words} ${actLink(service, { kind: 'pool', part: name })}</span></div>
<div class="workers">${workers.map(workerBox)}</div>`;
  });
  const about = 'a worker is replaced when it is old, never in the middle of a task';
  const tools = html`<span class="quiet small roomy-only">${about}</span>`;
  return card({ id: 'pools', title: `Pools of ${service.name}`, tools, body });
}

const workerStates: Readonly<Record<string, StateName>> = {
  ready: 'idle',
  busy: 'active',
  starting: 'warming',
  draining: 'draining',
};

function workerBox(worker: WorkerStats): Html {
  const { index, ageMs, tasks, heapBytes, version, utilisation } = worker;
  const name = utilisation > 0.5 ? 'busy' : worker.state;
  return html`<div class="worker"><span class="spread"><b>w${index + 1}</b>
${state(workerStates[name] ?? 'idle', name, 'bare')}</span>
${meter({ share: utilisation, label: `busy ${percent(utilisation)} of the time` })}
<span class="tiny"><span>${duration(ageMs)}</span><span>${decimal(tasks)} tasks</span></span>
<span class="tiny quiet"><span>${bytes(heapBytes)}</span>
<span>v ${decimal(version)}</span></span></div>`;
}

/** Changes of a breaker that its card tells; the page of events has all. */
const breakerEvents = 4;
const breakerWords = {
  closed: 'all calls pass',
  open: 'calls are refused',
  'half-open': 'one probes',
};

/** A breaker: its state in the three-state diagram, what happened when, and its last failure. */
export function breakerCard(
  service: ServiceWatch,
  breaker: BreakerReading,
  events: readonly ConsoleEvent[],
): Html {
  const { name, state: now, calls, failures, opened, callMs, lastFailure } = breaker;
  const boxes = (['closed', 'open', 'half-open'] as const).map((each) => {
    const isNow = each === now;
    return html`<li class="${isNow && 'now'}" aria-current="${isNow && 'true'}"><b>${each}</b>
<span class="small">${breakerWords[each]}</span></li>`;
  });
  const rows: [string, string][] = [
    ['Calls', decimal(calls)],
    ['Failed', decimal(failures)],
    ['Opened', decimal(opened)],
    ['Call p50, p99', callMs ? `${duration(callMs.p50)}, ${duration(callMs.p99)}` : unknown],
  ];
  const happened = events
    .filter((event) => event.service === service.name && event.text.startsWith(`breaker ${name} `))
    .slice(0, breakerEvents);
  const last =
    lastFailure !== undefined &&
    html`<p class="small quiet">Last failure: ${lastFailure.message}</p>`;
  const body = html`<ol class="three-states" aria-label="States of the breaker">${boxes}</ol>
${facts(rows)}
${last}${happened.length > 0 && timeline(happened)}`;
  const link = actLink(service, { kind: 'breaker', part: name });
  const tools = html`${state(now, breaker.held === true ? `held ${now}` : now)} ${link}`;
  return card({
    id: `breaker-${name}`,
    title: 'Breaker',
    about: `${service.name} / ${name}`,
    tools,
    body,
  });
}

/** Each bucket with the tokens that are left. */
export function bucketCard(service: ServiceWatch, buckets: readonly BucketReading[]): Html {
  const items = buckets.map((bucket) => {
    const { name, tokens, ratePerSecond, waiting, slowed } = bucket;
    const left = Math.max(0, Math.floor(tokens));
    const now = `${decimal(left)} tokens left · ${decimal(waiting)} wait`;
    const words = `${now} · slowed ${decimal(slowed)} times`;
    const share = ratePerSecond > 0 ? Math.min(1, 1 - tokens / ratePerSecond) : 0;
    return html`<li><span class="spread"><b>${service.name} / ${name}</b>
<span>${decimal(ratePerSecond, 1)}/s permitted
${actLink(service, { kind: 'bucket', part: name })}</span></span>
${meter({ share: Math.max(0, share), label: `${name}: ${words}` })}
<span class="quiet small">${words}</span>
${burstChart(service, bucket)}</li>`;
  });
  return card({
    id: 'buckets',
    title: 'Buckets',
    about: decimal(buckets.length),
    body: html`<ul class="buckets">${items}</ul>`,
  });
}

/** Each lease with its fence and the time that is left. */
export function leaseCard(service: string, leases: readonly LeaseReading[]): Html {
  const body = table({
    label: `Leases of ${service}`,
    rows: leases,
    dense: true,
    columns: [
      { name: 'Lease', cell: ({ name }) => `${service} / ${name}` },
      { name: 'Holder', cell: ({ held }) => holderOf(service, held) },
      { name: 'Fence', cell: ({ fence }) => decimal(fence), numeric: true },
      { name: 'Time left', cell: ({ leftMs }) => duration(leftMs), numeric: true },
    ],
  });
  return card({ id: 'leases', title: 'Leases', about: decimal(leases.length), body, flush: true });
}

function holderOf(service: string, isHeld: boolean): Html {
  return isHeld ? state('ok', `this ${service}`) : state('warn', 'lost to another');
}

/** Work in the background: what waits and what became of the rest. */
export function backlogCard(service: string, backlogs: readonly BacklogReading[]): Html {
  const body = table({
    label: `Backlogs of ${service}`,
    rows: backlogs,
    dense: true,
    columns: [
      { name: 'Backlog', cell: ({ name }) => name },
      { name: 'Waiting', cell: ({ waiting }) => decimal(waiting), numeric: true },
      { name: 'Running', cell: ({ running }) => decimal(running), numeric: true },
      { name: 'Done', cell: ({ done }) => decimal(done), numeric: true },
      { name: 'Failed', cell: ({ failed }) => decimal(failed), numeric: true },
    ],
  });
  const about = decimal(backlogs.length);
  return card({ id: 'backlogs', title: 'Backlogs', about, body, flush: true });
}

/** A harvest: its pace, its troubles and the time that it still needs. */
export function harvestCard(service: string, harvest: HarvestReading): Html {
  const { name, ratePerSecond, inFlight, limit, retries, throttled, gaps, etaMs } = harvest;
  const body = facts([
    ['Fetches', `${decimal(ratePerSecond, 1)}/s, ${decimal(inFlight)} of ${decimal(limit)} open`],
    ['Fetched again', decimal(retries)],
    ['Answered 429', decimal(throttled)],
    ['Gaps', decimal(gaps)],
    ['Done in', duration(etaMs)],
  ]);
  return card({ id: `harvest-${name}`, title: 'Harvest', about: `${service} / ${name}`, body });
}

/** Events, the newest first. */
export function timeline(events: readonly ConsoleEvent[]): Html {
  if (events.length === 0) {
    return html`<p class="quiet">Nothing has changed since the console was started.</p>`;
  }
  const items = events.map(({ at, state: name, text, service }) => {
    const time = new Date(at).toTimeString().slice(0, 8);
    return html`<li><time>${time}</time>${state(name, '', 'bare')}
<span>${text} <span class="quiet">${service}</span></span></li>`;
  });
  return html`<ol class="timeline">${items}</ol>`;
}
