import type { Random } from '../base/random.ts';
import type { BreakRule } from './break-rule.ts';

/** The settings by which a breaker opens and closes. */
export interface BreakerRule {
  readonly rule: BreakRule;
  readonly cooldownMs: number;
  readonly cooldownGrowth: number;
  readonly cooldownMsMax: number;
  readonly jitter: number;
  readonly successesToClose: number;
  readonly probeMsMax: number;
}

/**
 * closed: all calls pass. open: none, until the cooldown is over and somebody comes to probe.
 * half-open: one probe at a time; a failure opens it again, enough successes in a row close it.
 */
export type BreakerStatus = 'closed' | 'open' | 'half-open';

/** The state of a breaker: plain data, so that it can be kept in a shared store as well. */
export interface BreakerState {
  status: BreakerStatus;
  since: number;
  /** Grows with each change of status and each probe; calls that began before it do not count. */
  generation: number;
  cooldownEndsAt: number;
  /** Cooldowns since it was last closed: each is longer than the one before. */
  cooldowns: number;
  /** Probes that succeeded since it was last open. */
  successes: number;
  opened: number;
  /** True while a probe is under way; without an outcome by `probeEndsAt` it has failed. */
  probing: boolean;
  probeEndsAt: number;
  memory: unknown;
}

/** Permission to call; its generation tells later whether the call's outcome still counts. */
export interface Pass {
  readonly generation: number;
  readonly probe: boolean;
}

/** The end of a call: an ignored one, such as an aborted one, teaches nothing. */
export type BreakerOutcome = 'success' | 'failure' | 'ignored';

export function closedBreaker({ rule }: BreakerRule, now: number): BreakerState {
  return {
    status: 'closed',
    since: now,
    generation: 1,
    cooldownEndsAt: now,
    cooldowns: 0,
    successes: 0,
    opened: 0,
    probing: false,
    probeEndsAt: now,
    memory: rule.start(),
  };
}

/** Lets a call pass, as the one probe if need be; undefined when it may not call now. */
export function admit(
  rule: BreakerRule,
  state: BreakerState,
  now: number,
  random: Random,
): Pass | undefined {
  if (state.status === 'closed') return { generation: state.generation, probe: false };
  // A probe without an outcome has failed: it met the outage that it was looking for.
  if (state.probing && now >= state.probeEndsAt) open(rule, state, now, random);
  if (now < mayProbeAt(state)) return undefined;
  if (state.status === 'open') turn(state, 'half-open', now);
  state.generation += 1;
  state.probing = true;
  state.probeEndsAt = now + rule.probeMsMax;
  return { generation: state.generation, probe: true };
}

/** Notes the end of a call, unless the state has changed since it began. */
export function learnOutcome(
  rule: BreakerRule,
  state: BreakerState,
  ended: Pass & { readonly outcome: BreakerOutcome },
  now: number,
  random: Random,
): void {
  const { generation, probe, outcome } = ended;
  if (generation !== state.generation) return;
  if (probe) {
    state.probing = false;
    if (outcome === 'failure') open(rule, state, now, random);
    if (outcome === 'success') state.successes += 1;
    if (state.successes >= rule.successesToClose) close(rule, state, now);
  } else if (outcome !== 'ignored') {
    const breaks = rule.rule.breaks(state.memory, outcome === 'failure', now);
    if (breaks) open(rule, state, now, random);
  }
}

/** The time at which the next probe may begin; earlier if the present one ends before its limit. */
export function mayProbeAt(state: BreakerState): number {
  return state.probing ? state.probeEndsAt : state.cooldownEndsAt;
}

function open(rule: BreakerRule, state: BreakerState, now: number, random: Random): void {
  let grown = rule.cooldownMs;
  // Step by step, as stores do in their own languages: powers differ in the last digit.
  for (let i = 0; i < state.cooldowns && grown < rule.cooldownMsMax; i += 1) {
    grown *= rule.cooldownGrowth;
  }
  const ms = Math.min(rule.cooldownMsMax, grown);
  // Jitter only shortens, so that the maximum holds and processes do not probe in step.
  state.cooldownEndsAt = now + ms * (1 - rule.jitter * random());
  state.cooldowns += 1;
  state.opened += 1;
  state.successes = 0;
  state.probing = false;
  turn(state, 'open', now);
}

function close({ rule }: BreakerRule, state: BreakerState, now: number): void {
  state.cooldowns = 0;
  state.successes = 0;
  state.memory = rule.start();
  turn(state, 'closed', now);
}

function turn(state: BreakerState, status: BreakerStatus, now: number): void {
  state.status = status;
  state.since = now;
  state.generation += 1;
}
