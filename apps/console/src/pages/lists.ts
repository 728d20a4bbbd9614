import { type Html, html, type RouteStats } from 'spillway-http';
import { card, decimal, duration, empty, pageHead, state, table, tag } from 'spillway-http/kit';
import { adviseAll } from '../advice.ts';
import type { View } from '../open.ts';
import type { ServiceWatch } from '../service-watch.ts';
import { poolCard, timeline } from './cards.ts';
import { laneTable } from './lane-table.ts';

const chosenOf = ({ services }: View, chosen: string): readonly ServiceWatch[] =>
  services.filter(({ name }) => chosen === '' || name === chosen);

/** Lanes of each service while all are shown; one service has all of its lanes. */
const lanesEach = 10;

/** The lanes of one service, or the busiest of all. */
export function lanesView(view: View, chosen: string): Html {
  const cards = chosenOf(view, chosen).map((service) => {
    const lanes = service.reading?.parts.lanes ?? [];
    const countMax = chosen === '' ? lanesEach : Infinity;
    const all = html`<a href="/lanes?service=${service.name}">All ${decimal(lanes.length)}</a>`;
    return card({
      id: `lanes-${service.name}`,
      title: service.name,
      about: decimal(lanes.length),
      tools: lanes.length > countMax ? all : undefined,
      body: laneTable(service, lanes, countMax),
      flush: true,
    });
  });
  return html`${pageHead({ title: 'Lanes' })}${cards}`;
}

export function poolsView(view: View, chosen: string): Html {
  const cards = chosenOf(view, chosen).flatMap((service) => {
    const pools = service.reading?.parts.pools ?? [];
    return pools.length > 0 ? [poolCard(service, pools)] : [];
  });
  const none = empty({ title: 'No pools', text: 'No service that answers has worker threads.' });
  return html`${pageHead({ title: 'Pools' })}${cards.length > 0 ? cards : none}`;
}

export function eventsView({ events }: View, chosen: string): Html {
  const list = events.list.filter(({ service }) => chosen === '' || service === chosen);
  const body = timeline(list.slice(0, 200));
  const all = card({ id: 'events', title: 'What happened', body });
  return html`${pageHead({ title: 'Events' })}${all}`;
}

export function errorsView(view: View, chosen: string): Html {
  const all = chosenOf(view, chosen).flatMap(({ name, errors }) =>
    errors.map((error) => ({ ...error, service: name })),
  );
  if (all.length === 0) {
    const text = 'Failures that nobody foresaw stand here with their stack.';
    return html`${pageHead({ title: 'Errors' })}${empty({ title: 'No errors', text })}`;
  }
  const items = all.slice(0, 100).map(({ service, code, message, stack, at, route }) => {
    const time = new Date(at).toTimeString().slice(0, 8);
    const place = html`<span class="quiet">${service} ${route} ${time}</span>`;
    const head = html`<b>${code}</b> ${message} ${place}`;
    return html`<details><summary>${head}</summary><pre>${stack ?? 'no stack'}</pre></details>`;
  });
  const body = html`<div class="errors">${items}</div>`;
  const list = card({ id: 'errors', title: 'The last failures', body });
  return html`${pageHead({ title: 'Errors' })}${list}`;
}

export function routesView(view: View, chosen: string): Html {
  const cards = chosenOf(view, chosen).map(({ name, reading }) =>
    card({
      id: `routes-${name}`,
      title: name,
      about: decimal(reading?.routes.length),
      tools: html`<a href="/api?service=${name}">API with its schemas</a>`,
      body: routeTable(name, reading?.routes ?? []),
      flush: true,
    }),
  );
  const about = html`<span class="quiet">what each declares, and what was measured</span>`;
  return html`${pageHead({ title: 'Routes', about })}${cards}`;
}

function routeTable(service: string, routes: readonly RouteStats[]): Html {
  return table({
    label: `Routes of ${service}`,
    rows: routes,
    dense: true,
    columns: [
      { name: 'Route', cell: ({ method, path }) => `${method} ${path}` },
      { name: 'Domain', cell: ({ domain, broken }) => domainOf(domain, broken) },
      { name: 'Lane', cell: ({ lane }) => lane ?? '–', fold: 'away' },
      { name: 'Answers', cell: ({ answers }) => answersOf(answers), fold: 'named' },
      { name: 'p50', cell: ({ latencyMs }) => duration(latencyMs.p50), numeric: true },
      { name: 'p99', cell: ({ latencyMs }) => duration(latencyMs.p99), numeric: true },
      { name: 'Loop p99', cell: ({ loopMs }) => duration(loopMs.p99), numeric: true },
    ],
  });
}

function domainOf(domain: string, isBroken: boolean): Html {
  return isBroken ? state('warn', `${domain}, but holds the loop`) : tag(domain);
}

function answersOf(answers: Readonly<Record<string, number>>): string {
  const all = Object.entries(answers).map(([status, count]) => `${status}: ${decimal(count)}`);
  return all.length > 0 ? all.join(', ') : '–';
}

/** Page of the advisor: parts that are too small, too slow or broken. */
export function advisorView({ services }: View, chosen: string): Html {
  const advice = adviseAll(services).filter(({ service }) => chosen === '' || service === chosen);
  if (advice.length === 0) {
    const text = 'Every lane has room for what arrives, every breaker is closed.';
    return html`${pageHead({ title: 'Advisor' })}${empty({ title: 'Nothing to change', text })}`;
  }
  const cards = advice.map(({ title, text, chain, service, lane, href }) => {
    const id = `advice-${service}-${lane ?? title}`.replaceAll(/[^\w-]/g, '-');
    const steps =
      chain.length > 0 &&
      html`<ol class="chain">${chain.map((link) => html`<li>${link}</li>`)}</ol>`;
    const tools = html`<a href="${href}">Look at the cause</a>`;
    return card({ id, title, tools, body: html`<p>${text}</p>${steps}` });
  });
  return html`${pageHead({ title: 'Advisor' })}${cards}`;
}
