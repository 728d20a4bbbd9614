import type { RecentError, RouteStats } from 'spillway-http';
import { findParts, type Parts } from './parts.ts';
import { fits } from './shape.ts';

/** A service as it was when it answered last. */
export interface ServiceReading {
  /** Its public address. */
  readonly url?: string;
  readonly process: {
    readonly uptimeMs: number;
    readonly residentBytes: number;
    readonly loopDelayMs: { readonly p99: number };
  };
  readonly parts: Parts;
  /** Names of the parts that an operator can change. */
  readonly changeable?: readonly string[];
  readonly routes: readonly RouteStats[];
}

/** Most failures of a service that are listed. */
const errorsMax = 100;

const readingShape = {
  process: { uptimeMs: 0, residentBytes: 0, loopDelayMs: { p99: 0 } },
  routes: [
    {
      ...{ method: '', path: '', domain: '', answers: { '*': 0 } },
      ...{ latencyMs: { p50: 0, p99: 0 }, loopMs: { p99: 0 } },
    },
  ],
} as const;
const errorShape = { message: '', code: '', route: '', 'stack?': '', at: 0 };

/** Checks the answer of a service, which may be of another version, or another program. */
export function readingOf(answer: unknown): ServiceReading {
  if (!fits(answer, readingShape)) throw new Error('sends what this console cannot read');
  const { url, changeable, parts, routes, ...known } = answer as unknown as ServiceReading;
  return {
    ...known,
    ...(/^https?:/.test(String(url)) && { url: String(url) }),
    changeable: changeable !== undefined && fits(changeable, ['']) ? changeable : [],
    parts: findParts(parts),
    routes: routes.map((route) => ({ ...route, lane: fits(route.lane, '') ? route.lane : null })),
  };
}

export function errorsOf(answer: unknown): readonly RecentError[] {
  return Array.isArray(answer)
    ? answer.filter((one) => fits(one, errorShape)).slice(0, errorsMax)
    : [];
}
