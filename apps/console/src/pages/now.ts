import { type Html, html } from 'spillway-http';
import { button, bytes, card, decimal, duration, sparkline, state } from 'spillway-http/kit';
import { type Advice, advise } from '../advice.ts';
import type { ConsoleEvent } from '../events.ts';
import type { View } from '../open.ts';
import type { ServiceWatch } from '../service-watch.ts';
import { actLink } from './act.ts';
import { budgetCards } from './budget.ts';
import {
  backlogCard,
  breakerCard,
  bucketCard,
  harvestCard,
  leaseCard,
  poolCard,
  timeline,
} from './cards.ts';
import { usedLanes } from './lane-table.ts';
import { demoLink, launchNotices } from './launch.ts';

const eventsShown = 12;

/** Everything at a glance: what is wrong and why, then the parts. */
export function nowView(view: View, chosen: string): Html {
  const { services, events, launcher } = view;
  const advice = advise(services);
  const service =
    services.find(({ name }) => name === (chosen || advice[0]?.service)) ?? services[0];
  const happened = events.list.slice(0, eventsShown);
  return html`<h1 class="hidden">Console</h1>
${launchNotices(launcher)}
${verdict(advice[0], services)}
<nav class="service-tiles" aria-label="Services by state">${services.map((each) =>
    tile(each, advice, each === service),
  )}</nav>
${service !== undefined && serviceCards(service, events.list)}
${card({ id: 'events', title: 'What happened', about: 'newest first', body: timeline(happened) })}
${demoLink(launcher)}`;
}

function serviceCards(service: ServiceWatch, events: readonly ConsoleEvent[]): Html {
  const { name, reading, silence } = service;
  if (reading === undefined) return html``;
  const { url } = reading;
  const { pools, breakers, buckets, leases, backlogs, harvests } = reading.parts;
  const words = 'Little’s law: arrivals × time inside = permits kept busy';
  const drain = actLink(service, { kind: 'service', part: '' }, 'Drain…');
  const isHere = service.folder !== undefined && silence === undefined && url !== undefined;
  const open = isHere && button({ label: `Open ${name}`, href: near(url), little: true });
  const law = html`<span class="row"><span class="legend roomy-only">${words}</span>
${open}${drain}</span>`;
  return html`${card({
    id: 'lanes',
    title: `Lanes of ${name}`,
    tools: law,
    body: usedLanes(service),
    flush: true,
  })}
${budgetCards(service, reading.parts.lanes)}
${pools.length > 0 && poolCard(service, pools)}
<div class="console-parts">${breakers.map((breaker) => breakerCard(service, breaker, events))}
${buckets.length > 0 && bucketCard(service, buckets)}
${leases.length > 0 && leaseCard(name, leases)}
${harvests.map((harvest) => harvestCard(name, harvest))}
${backlogs.length > 0 && backlogCard(name, backlogs)}</div>`;
}

/** The address by which this machine reaches a service that listens at all of its addresses. */
function near(url: string): string {
  return url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, '//127.0.0.1:');
}

/** The one sentence that is read from two metres; calm says so in the same place. */
function verdict(worst: Advice | undefined, services: readonly ServiceWatch[]): Html {
  if (worst === undefined) {
    const count = services.length;
    const counted = count === 1 ? '1 service answers' : `${count} services answer`;
    const text =
      count === 0
        ? 'No service has its data below this folder yet. Start one: npm start'
        : `${counted}, and none turns work away.`;
    return html`<section class="alarm is-calm" role="status"><div>
<h2>${count === 0 ? 'Nothing to watch yet' : 'All calm'}</h2><p>${text}</p></div></section>`;
  }
  const { title, text, chain, service, lane, href } = worst;
  const watch = services.find(({ name }) => name === service);
  const change =
    lane !== undefined &&
    watch !== undefined &&
    actLink(watch, { kind: 'lane', part: lane }, 'Change the lane…');
  const links = chain.map((link, at) => {
    const isLast = at === chain.length - 1;
    const word = at === 0 ? 'What is seen' : 'because';
    const kind = isLast && at > 0 && 'root';
    return html`<li class="${kind}"><span class="quiet">${word}</span>${link}</li>`;
  });
  const steps =
    chain.length > 0 &&
    html`<ol class="chain" aria-label="From the symptom to its cause">${links}</ol>`;
  return html`<section class="alarm" role="status"><div>
<h2>${state('warn', '', 'bare')}${title}</h2><p>${text}</p>
<span class="row">${button({ label: 'Look at the cause', href, little: true })}${change}</span>
</div>${steps}</section>`;
}

function tile(service: ServiceWatch, advice: readonly Advice[], isHere: boolean): Html {
  const { name, reading, silence, loop } = service;
  const found = advice.filter((each) => each.service === name);
  const { process: own } = reading ?? {};
  const calls = reading?.routes.reduce((sum, route) => sum + count(route.answers), 0);
  const trend = sparkline({
    values: loop.values,
    label: `Event-loop delay of ${name} over the last hour`,
    max: Math.max(20, ...loop.values),
    tone: found.length > 0 ? 'warn' : 'plain',
  });
  const word = found.length > 0 ? state('warn', words(found), 'bare') : state('ok', 'calm', 'bare');
  const shown = silence === undefined ? word : state('error', silence, 'bare');
  return html`<a class="${isHere ? 'card service here' : 'card service'}" href="/?service=${name}"
 aria-current="${isHere && 'true'}">
<span class="spread"><strong>${name}</strong>${shown}</span>
${trend}
<span class="facts-line figures"><span><span class="quiet">answers</span> ${decimal(calls)}</span>
<span><span class="quiet">loop p99</span> ${duration(own?.loopDelayMs.p99)}</span>
<span><span class="quiet">memory</span> ${bytes(own?.residentBytes)}</span></span></a>`;
}

function words(found: readonly Advice[]): string {
  return found.length === 1 ? 'needs a look' : `${found.length} need a look`;
}

function count(answers: Readonly<Record<string, number>>): number {
  return Object.values(answers).reduce((sum, each) => sum + each, 0);
}
