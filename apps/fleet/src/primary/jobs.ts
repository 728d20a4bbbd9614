import type { Clock, Part, Random } from 'spillway';
import {
  audit,
  endDeadTasks,
  type JobName,
  jobPeriods,
  measureSpeed,
  periodic,
  shareThroughput,
} from '../world/upkeep.ts';
import type { Primary } from './primary.ts';

const decisions = { shareThroughput, measureSpeed, audit } as const;

export interface JobsOptions {
  readonly primary: Primary;
  readonly clock: Clock;
  readonly random: Random;
  /** Told of jobs that failed; they are done again at their time. */
  readonly onFailure: (job: JobName, error: unknown) => void;
}

/** What the fleet does by itself, on the primary instance. */
export class Jobs implements Part {
  readonly name = 'jobs';
  readonly #options: JobsOptions;
  readonly #timers: Disposable[] = [];

  constructor(options: JobsOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, random } = this.#options;
    for (const [name, period] of Object.entries(jobPeriods)) {
      const job = () => void this.#do(name as JobName);
      this.#timers.push(periodic({ clock, random, ...period }, job));
    }
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) timer[Symbol.dispose]();
  }

  async #do(name: JobName): Promise<void> {
    const { primary, onFailure } = this.#options;
    if (!primary.isPrimary) return;
    try {
      if (name === 'forgetIdle') primary.world.forgetIdle();
      else if (name === 'endDeadTasks') await this.#endDeadTasks();
      else await primary.change(decisions[name]);
    } catch (error) {
      onFailure(name, error);
    }
  }

  /** A thousand at a time, each stored before the next, so that others have their turn. */
  async #endDeadTasks(): Promise<void> {
    const { primary } = this.#options;
    let more = true;
    while (more) {
      more = await primary.decide((world) => {
        const { changes, more: reply } = endDeadTasks(world);
        return { reply, changes };
      });
    }
  }
}
