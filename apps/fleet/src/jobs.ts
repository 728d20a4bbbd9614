import type { Clock, Part, Random } from 'spillway';
import type { Primary } from './primary.ts';
import type { Fleet } from './scheduling/fleet.ts';
import { type JobName, jobPeriods, periodic } from './scheduling/maintenance.ts';
import type { Changes } from './scheduling/records.ts';

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
      if (name === 'forgetIdle') primary.fleet.forgetIdle();
      else if (name === 'endDeadTasks') await this.#endDeadTasks();
      else await primary.change((fleet: Fleet): Changes => fleet[name]());
    } catch (error) {
      onFailure(name, error);
    }
  }

  /** A thousand at a time, each stored before the next, so that others have their turn. */
  async #endDeadTasks(): Promise<void> {
    const { primary } = this.#options;
    let more = true;
    while (more) {
      more = await primary.decide((fleet) => {
        const { changes, more: reply } = fleet.endDeadTasks();
        return { reply, changes };
      });
    }
  }
}
