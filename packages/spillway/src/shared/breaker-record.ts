import type { Json } from '../base/json.ts';
import type { Random } from '../base/random.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  closedBreaker,
  learnOutcome,
  type Pass,
} from '../outbound/breaker-state.ts';
import type { StoreDecision } from '../store/store.ts';

/** The state of the breaker that all processes share; its times are the store's. */
export interface SharedState extends BreakerState {
  /** The visit that was given leave to probe. */
  prober: string;
  /** Ids of recent visits: one that is repeated after a lost answer must not count twice. */
  recent: string[];
}

/** The end of a call, with its time by the store's clock and the visit that announced a probe. */
export interface BreakerNews extends Pass {
  readonly prober: string;
  readonly outcome: BreakerOutcome;
  readonly at: number;
}

interface BreakerVisit {
  readonly id: string;
  readonly told: readonly BreakerNews[];
  readonly wantsProbe: boolean;
  /** A random number from 0 to 1, for the jitter of cooldowns. */
  readonly chance: number;
}

/** The answer to a visit. */
export interface BreakerAnswer {
  readonly state: SharedState;
  /** True if this visit has leave to probe. */
  readonly probes: boolean;
}

const recentMax = 16;

/** Names the record; each kind of rule has one of its own, since it would misread another's. */
export function breakerRecord(name: string, { rule }: BreakerRule): string {
  const plain = rule.plain as { readonly windowMs?: number } | undefined;
  if (plain === undefined) return `breaker/${name}/custom`;
  const { windowMs } = plain;
  return `breaker/${name}/${windowMs === undefined ? 'in-row' : `share-${windowMs}`}`;
}

/** The argument of a visit; stores that decide by themselves need the rule in it. */
export function breakerArgument(rule: BreakerRule, visit: BreakerVisit): Json {
  const { cooldownMs, cooldownGrowth, cooldownMsMax } = rule;
  const { jitter, successesToClose, probeMsMax } = rule;
  const cooldown = { cooldownMs, cooldownGrowth, cooldownMsMax, jitter };
  const told = visit.told.map(({ generation, probe, prober, outcome, at }) => {
    return { generation, probe, prober, outcome, at };
  });
  const plain = rule.rule.plain ?? null;
  return { rule: plain, ...cooldown, successesToClose, probeMsMax, ...visit, told };
}

/** Adds news to the record of all processes, and gives leave to probe if it is wanted. */
export function breakerDecision(rule: BreakerRule): StoreDecision {
  return {
    name: rule.rule.plain === undefined ? 'breaker/custom' : 'breaker/settle',
    decide(value, argument, now) {
      const { id, told, wantsProbe, chance } = argument as unknown as BreakerVisit;
      const random = () => chance;
      const stored = structuredClone(value) as unknown as SharedState | undefined;
      const state = stored ?? newSharedState(rule, now);
      const before = JSON.stringify(state);
      for (const news of state.recent.includes(id) ? [] : told) {
        // No call ended in the store's future, whatever a client's clock says.
        learnNews(rule, state, { ...news, at: Math.min(news.at, now) }, random);
      }
      const probes = wantsProbe && mayProbe(rule, state, { id, now, random });
      const answer = { state, probes } as unknown as Json;
      if (stored !== undefined && JSON.stringify(state) === before) return { answer };
      state.recent = [...state.recent, id].slice(-recentMax);
      return { answer, next: { value: state as unknown as Json } };
    },
  };
}

function mayProbe(
  rule: BreakerRule,
  state: SharedState,
  { id, now, random }: { readonly id: string; readonly now: number; readonly random: Random },
): boolean {
  if (state.status === 'closed') return false;
  if (state.probing && state.prober === id) return true;
  if (admit(rule, state, now, random) === undefined) return false;
  state.prober = id;
  return true;
}

/** Notes the end of a call; of a probe only if it is still the one. */
export function learnNews(
  rule: BreakerRule,
  state: SharedState,
  news: BreakerNews,
  random: Random,
): void {
  if (news.probe && news.prober !== state.prober) return;
  learnOutcome(rule, state, news, news.at, random);
}

export function newSharedState(rule: BreakerRule, now: number): SharedState {
  return { ...closedBreaker(rule, now), prober: '', recent: [] };
}
