import { adviseLane } from 'spillway/internal';
import { decimal, duration, percent } from 'spillway-http/kit';
import type { LaneReading } from './parts.ts';
import type { LaneMinute, ServiceWatch } from './service-watch.ts';

/** One thing that needs a look, in plain words, with the way from the symptom to its cause. */
export interface Advice {
  readonly service: string;
  readonly lane: string | undefined;
  /** Share of calls that are refused; 1 for a service that is silent, 0 for a mere note. */
  readonly weight: number;
  readonly title: string;
  readonly text: string;
  /** Each is the reason of the one before. */
  readonly chain: readonly string[];
  /** The page of the console on which the cause is seen. */
  readonly href: string;
}

const loopMsMax = 100;

/** Everything that can be said, the worst first; notes on lanes that refuse nobody weigh 0. */
export function adviseAll(services: readonly ServiceWatch[]): Advice[] {
  return services.flatMap(adviseService).toSorted((a, b) => b.weight - a.weight);
}

/** Everything that needs a look, the worst first. */
export function advise(services: readonly ServiceWatch[]): Advice[] {
  return adviseAll(services).filter(({ weight }) => weight > 0);
}

function adviseService(service: ServiceWatch): Advice[] {
  const { name, silence, reading } = service;
  if (silence !== undefined || reading === undefined) {
    const isKnown = reading !== undefined;
    const text = isKnown ? 'Its numbers are those of its last answer.' : 'It has sent no numbers.';
    const title = `${name} ${silence ?? 'has not answered yet'}`;
    const href = `/events?service=${name}`;
    return [{ service: name, lane: undefined, weight: 1, title, text, chain: [], href }];
  }
  const found = reading.parts.lanes.flatMap((lane) => adviseOf(service, lane) ?? []);
  for (const breaker of reading.parts.breakers) {
    if (breaker.state === 'closed') continue;
    found.push({
      service: name,
      lane: undefined,
      weight: 0.5,
      title: `${name}: the breaker ${breaker.name} is ${breaker.state}`,
      text: `${decimal(breaker.failures)} of ${decimal(breaker.calls)} calls have failed.`,
      chain: ['calls are refused at once', breaker.lastFailure?.message ?? 'an operator holds it'],
      href: `/?service=${name}#breaker-${breaker.name}`,
    });
  }
  const lateMs = reading.process.loopDelayMs.p99;
  if (lateMs > loopMsMax) {
    found.push({
      service: name,
      lane: undefined,
      weight: 0.4,
      title: `${name}: the event loop is late by ${duration(lateMs)}`,
      text: 'Something computes on it. The routes that hold it are marked under Routes.',
      chain: [],
      href: `/routes?service=${name}`,
    });
  }
  return found;
}

function adviseOf(service: ServiceWatch, lane: LaneReading): Advice | undefined {
  const minute = service.minuteOf(lane);
  const { name } = lane;
  const usualMs = service.serviceMs.get(name)?.usual;
  const { arrived, refused } = minute;
  const found = adviseLane({ ...lane, arrived, refused, usualMs });
  if (found === undefined) return undefined;
  const { finding, share, text } = found;
  const href = `/lanes?service=${service.name}`;
  const about = { service: service.name, lane: name, weight: share, text, href };
  if (finding === 'larger than it needs') {
    return { ...about, title: `${service.name}: ${name} is ${finding}`, chain: [] };
  }
  const title = `${service.name} turns work away: ${percent(share, 1)} of ${name}`;
  const slowMs = finding === 'behind something slow' ? usualMs : undefined;
  return { ...about, title, chain: chainOf(service, lane, minute, slowMs) };
}

const reasons: Readonly<Record<string, string>> = {
  aborted: 'clients left while they waited',
  closed: 'the lane is closing',
  deadline: 'the deadline came while they waited',
  full: 'the queue is full',
  late: 'they could not have ended in time',
  stale: 'the queue stood for too long',
};

function chainOf(
  service: ServiceWatch,
  { serviceMs }: LaneReading,
  { refused, reason }: LaneMinute,
  usualMs: number | undefined,
): string[] {
  const chain = [`503 for ${decimal(refused / 60, 1)} calls a second`];
  if (reason !== undefined) chain.push(reasons[reason] ?? reason);
  if (usualMs !== undefined) {
    chain.push(`service time ${duration(usualMs)} → ${duration(serviceMs.p50)}`);
  }
  const { reading } = service;
  const lateMs = reading?.process.loopDelayMs.p99 ?? 0;
  if (lateMs > loopMsMax) chain.push(`event loop late by ${duration(lateMs)}`);
  const broken = reading?.parts.breakers.find(({ state }) => state !== 'closed');
  if (broken !== undefined) chain.push(`breaker ${broken.name} is ${broken.state}`);
  return chain;
}
