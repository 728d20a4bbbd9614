import { type Html, html } from 'spillway-http';
import {
  type CellKind,
  cells,
  decimal,
  duration,
  meter,
  percent,
  sparkline,
  state,
  table,
} from 'spillway-http/kit';
import type { LaneReading } from '../parts.ts';
import type { ServiceWatch } from '../service-watch.ts';
import { actLink } from './act.ts';

/** The lanes that have had calls, and Little's law for each; the others are only counted. */
export function usedLanes(service: ServiceWatch): Html {
  const lanes = service.reading?.parts.lanes ?? [];
  const used = lanes.filter(({ arrived }) => arrived > 0);
  const idle = lanes.length - used.length;
  const rest =
    idle > 0 &&
    html`<p class="card-body quiet small">No calls yet:
<a href="/lanes?service=${service.name}">${decimal(idle)}
${idle === 1 ? 'lane' : 'lanes'}</a>.</p>`;
  return html`${used.length > 0 && laneTable(service, used)}${rest}`;
}

/** Lanes that refuse, then lanes with the most calls; at most `countMax`. */
export function laneTable(
  service: ServiceWatch,
  lanes: readonly LaneReading[],
  countMax: number = Infinity,
): Html {
  const weight = (lane: LaneReading) => {
    return 1e9 * service.minuteOf(lane).refused + lane.arrivalsPerSecond;
  };
  const rows = lanes.toSorted((a, b) => weight(b) - weight(a)).slice(0, countMax);
  const isTrouble = (lane: LaneReading) => service.minuteOf(lane).refused > 0;
  return table({
    label: `Lanes of ${service.name}`,
    rows,
    key: ({ name }) => name,
    columns: [
      {
        name: 'Lane',
        cell: (lane) => html`${isTrouble(lane) && state('warn', '', 'bare')} ${lane.name}`,
      },
      { name: 'Permits', cell: permits, fold: 'named' },
      { name: 'Waiting', cell: ({ waiting }) => decimal(waiting), numeric: true, fold: 'named' },
      { name: 'Arrivals', cell: arrivals, numeric: true, fold: 'away' },
      { name: 'Inside p50, p99', cell: times, numeric: true, fold: 'away' },
      { name: 'Little’s law', cell: littlesLaw, numeric: true, fold: 'named' },
      {
        name: 'Refused, last min',
        cell: (lane) => refused(service, lane),
        numeric: true,
        fold: 'named',
      },
      { name: 'In use, last hour', cell: (lane) => inUse(service, lane), fold: 'away' },
      {
        name: 'Action',
        cell: ({ name }) => actLink(service, { kind: 'lane', part: name }),
        fold: 'corner',
      },
    ],
  });
}

/** Permits that are drawn one by one. */
const boxesMax = 32;

function permits({ name, inside, limit }: LaneReading): Html {
  const label = `${name}: ${inside} of ${limit} permits are in use`;
  const boxes = Array.from({ length: Math.min(limit, boxesMax) }, (_, at): CellKind => {
    return at < inside ? 'on' : 'free';
  });
  const bar = limit > boxesMax ? meter({ share: inside / limit, label }) : cells(boxes, label);
  return html`<div class="permits">${bar}
<span class="of"><b>${decimal(inside)}</b> of ${decimal(limit)}</span></div>`;
}

function arrivals({ arrivalsPerSecond }: LaneReading): Html {
  return html`${decimal(arrivalsPerSecond, 1)}<span class="quiet">/s</span>`;
}

function times({ serviceMs }: LaneReading): Html {
  if (serviceMs.count === 0) return html`<span class="quiet">–</span>`;
  const { p50, p99 } = serviceMs;
  return html`${duration(p50)} <span class="quiet">${duration(p99)}</span>`;
}

function littlesLaw({ arrivalsPerSecond, serviceMs }: LaneReading): Html {
  const busy = (arrivalsPerSecond * serviceMs.mean) / 1_000;
  const sum = `${decimal(arrivalsPerSecond, 1)} × ${duration(serviceMs.mean)} =`;
  return html`<span class="quiet">${sum}</span> <b>${decimal(busy, 2)}</b>`;
}

function refused(service: ServiceWatch, lane: LaneReading): Html {
  const { refused: count, arrived, reason } = service.minuteOf(lane);
  if (count === 0) return html`<span class="quiet">0</span>`;
  const share = percent(count / Math.max(1, arrived), 1);
  return html`<span class="bad"><b>${decimal(count)}</b> ${reason}, ${share}</span>`;
}

function inUse(service: ServiceWatch, { name, limit }: LaneReading): Html {
  const values = service.inside.get(name)?.values ?? [];
  return html`<span class="hour">${sparkline({
    values,
    max: Math.min(limit, Math.max(8, ...values) * 2),
    label: `Permits of ${name} in use over the last hour`,
  })}</span>`;
}
