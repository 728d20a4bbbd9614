import type { Clock } from 'spillway';

/** Calls that GitHub still grants, as its answers tell. */
export interface GithubBudgetState {
  readonly limit: number;
  readonly remaining: number;
  /** Time at which it is full again, in UNIX seconds. */
  readonly reset: number;
  readonly used: number;
  readonly resource: 'core';
  /** Nothing has been heard of it yet. */
  readonly _uninitialized: boolean;
}

/** Budget that GitHub grants without a token, assumed until its first answer. */
const unheard = { limit: 60, remaining: 60, used: 0, resource: 'core' } as const;

/** Knows from each answer how many calls are left. */
export class GithubBudget {
  readonly #clock: Pick<Clock, 'now'>;
  #state: GithubBudgetState | undefined;

  /** The clock is one of UNIX milliseconds. */
  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  get state(): GithubBudgetState {
    const now = Math.floor(this.#clock.now() / 1000);
    const state = this.#state;
    if (state === undefined) return { ...unheard, reset: now, _uninitialized: true };
    if (now < state.reset) return state;
    return { ...state, remaining: state.limit, used: 0 };
  }

  /** To be told of the headers of each answer. */
  note(headers: Readonly<Record<string, string | readonly string[] | undefined>>): void {
    if ((headers['x-ratelimit-resource'] ?? 'core') !== 'core') return;
    const count = (name: string) => {
      const text = headers[`x-ratelimit-${name}`];
      return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
    };
    const [limit, remaining, reset] = [count('limit'), count('remaining'), count('reset')];
    if (limit === undefined || remaining === undefined || reset === undefined) return;
    const used = count('used') ?? limit - remaining;
    this.#state = { limit, remaining, reset, used, resource: 'core', _uninitialized: false };
  }
}
