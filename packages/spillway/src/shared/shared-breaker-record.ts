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
import { type SharedOptions, type Sighting, StoreLink } from './store-link.ts';

/** The state of the breaker that all processes share, in the store's time. */
export interface SharedBreakerState extends BreakerState {
  /** The process that probes, if one does. */
  prober: string;
  /** Updates that were made lately: one whose answer was lost must not be made again. */
  recent: string[];
}

/** Leave to call, with the name under which a probe was announced. */
export interface SharedPass extends Pass {
  readonly prober: string;
  /** When the probe's time is over, by the local clock; it counts from before it was announced. */
  readonly endsAt: number;
}

/** How a call ended, and when by the store's time. */
export interface News extends SharedPass {
  readonly outcome: BreakerOutcome;
  readonly at: number;
}

const recentMax = 16;

export function newState(rule: BreakerRule, now: number): SharedBreakerState {
  return { ...closedBreaker(rule, now), prober: '', recent: [] };
}

/** Takes note of how a call ended; of a probe only if it is still the one. */
export function learn(
  rule: BreakerRule,
  state: SharedBreakerState,
  news: News,
  random: Random,
): void {
  if (!news.probe || news.prober === state.prober) learnOutcome(rule, state, news, news.at, random);
}

/** The record that all processes keep together. */
export class BreakerRecord {
  readonly #link: StoreLink;
  readonly #name: string;
  readonly #rule: BreakerRule;
  readonly #random: Random;

  constructor(options: SharedOptions, rule: BreakerRule, random: Random) {
    this.#link = new StoreLink({ ...options, deadlineMs: options.deadlineMs ?? 500 });
    this.#name = `breaker/${options.name}`;
    this.#rule = rule;
    this.#random = random;
  }

  /** Adds the news, asks for leave to probe if that is wanted, and tells how things are now. */
  async update(
    news: readonly News[],
    wantsProbe: boolean,
  ): Promise<{ state: SharedBreakerState; pass: SharedPass | undefined; seen: Sighting }> {
    const id = this.#link.newId();
    const { value, seen } = await this.#link.update([this.#name], (seen) => {
      const [record] = seen.records;
      const state = structuredClone(record?.value) as SharedBreakerState | undefined;
      const next = state ?? newState(this.#rule, seen.now);
      const before = JSON.stringify(next);
      const isDone = next.recent.includes(id);
      for (const each of isDone ? [] : news) {
        // Nothing has happened in the store's future, whatever a client's clock says.
        const at = Math.min(each.at, seen.now);
        learn(this.#rule, next, { ...each, at }, this.#random);
      }
      const pass = wantsProbe ? this.#probe(next, seen, id) : undefined;
      const value = { state: next, pass };
      if (state !== undefined && JSON.stringify(next) === before) return { value };
      next.recent = [...next.recent, id].slice(-recentMax);
      const ifVersion = record?.version ?? 0;
      return { value, changes: [{ name: this.#name, ifVersion, value: next as unknown as Json }] };
    });
    return { ...value, seen };
  }

  #probe(state: SharedBreakerState, seen: Sighting, id: string): SharedPass | undefined {
    if (state.status === 'closed') return undefined;
    if (!(state.probing && state.prober === id)) {
      if (admit(this.#rule, state, seen.now, this.#random) === undefined) return undefined;
      state.prober = id;
    }
    const endsAt = seen.sentAt + state.probeEndsAt - seen.now;
    return { generation: state.generation, probe: true, prober: id, endsAt };
  }
}
