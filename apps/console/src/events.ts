import type { StateName } from 'spillway-http/kit';
import type { BreakerReading, Parts } from './parts.ts';

/** Something that changed in a service. */
export interface ConsoleEvent {
  readonly service: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly state: StateName;
  readonly text: string;
}

const eventsMax = 1_000;

/** The last events of all services, the newest first. */
export class EventLog {
  readonly #events: ConsoleEvent[] = [];

  add(event: ConsoleEvent): void {
    this.#events.unshift(event);
    if (this.#events.length > eventsMax) this.#events.pop();
  }

  get list(): readonly ConsoleEvent[] {
    return this.#events;
  }
}

type Change = Pick<ConsoleEvent, 'state' | 'text'>;

/** The changes from one reading of a service to the next that people want to know of. */
export function eventsBetween(before: Parts, after: Parts): Change[] {
  return [
    ...both(before.breakers, after.breakers, breakerChange),
    ...both(before.pools, after.pools, (was, is) => {
      const changes: Change[] = [];
      const { name } = is;
      if (is.lost > was.lost) {
        changes.push({ state: 'error', text: `pool ${name}: a worker was lost` });
      }
      if (is.recycled > was.recycled) {
        changes.push({ state: 'ok', text: `pool ${name}: a worker was recycled` });
      }
      if (is.version > was.version) {
        changes.push({ state: 'ok', text: `snapshot of ${name} ${was.version} → ${is.version}` });
      }
      return changes;
    }),
    ...both(before.leases, after.leases, (was, is) => {
      if (was.held && !is.held) return [{ state: 'warn', text: `lease ${is.name} was lost` }];
      if (is.fence === was.fence) return [];
      return [{ state: 'ok', text: `lease ${is.name} is held, fence ${is.fence}` }];
    }),
    ...both(before.buckets, after.buckets, (was, is) => {
      if (is.slowed <= was.slowed) return [];
      return [{ state: 'warn', text: `bucket ${is.name} was slowed down by the other side` }];
    }),
    ...both(before.lanes, after.lanes, (was, is) => {
      const refused = refusals(is.refused) - refusals(was.refused);
      if (refused === 0 || refusals(was.refused) > 0) return [];
      return [{ state: 'warn', text: `lane ${is.name} refused its first ${refused}` }];
    }),
  ];
}

function both<T extends { readonly name: string }>(
  before: readonly T[],
  after: readonly T[],
  change: (was: T, is: T) => readonly Change[],
): Change[] {
  const known = new Map(before.map((part) => [part.name, part]));
  return after.flatMap((is) => {
    const was = known.get(is.name);
    return was === undefined ? [] : change(was, is);
  });
}

function breakerChange(was: BreakerReading, is: BreakerReading): readonly Change[] {
  if (is.state === was.state) return [];
  const { name, lastFailure } = is;
  if (is.state === 'open') {
    const why = lastFailure === undefined ? '' : `: ${lastFailure.message}`;
    return [{ state: 'open', text: `breaker ${name} opened${why}` }];
  }
  if (is.state === 'closed') return [{ state: 'closed', text: `breaker ${name} closed` }];
  return [{ state: 'half-open', text: `breaker ${name} half-open: one caller probes` }];
}

export function refusals(refused: Readonly<Record<string, number>>): number {
  return Object.values(refused).reduce((sum, count) => sum + count, 0);
}
