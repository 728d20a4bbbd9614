import { SingleFlight } from 'spillway';
import type { Context } from '../context.ts';
import type { RunRecord } from '../world/records.ts';
import { hoursLeft, Run } from '../world/run.ts';

/** One measurement of the fleet. */
export type FleetSample = Figures['now'];

const dayMs = 86_400_000;
const staleMs = 10_000;
const sampleMs = 600_000;
const samplesMax = 144;
/** Finished runs on the home page. */
export const homeFinished = 10;

/** Numbers and lists that many pages show, cached so that pages need not wait for the database. */
export class Figures {
  readonly #options: Context;
  readonly #samples: FleetSample[] = [];
  #sampledAt = Number.NEGATIVE_INFINITY;
  #finished = { runs: [] as readonly RunRecord[], total: 0, today: 0, acceptedToday: 0 };
  /** Unfinished runs as they are stored, where another instance decides. */
  #stored: readonly Run[] = [];
  #pendingUsers = 0;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #lists = -1;
  readonly #loading = new SingleFlight<void>();

  constructor(options: Context) {
    this.#options = options;
    // When the lists have changed, they are read again, then open pages are redrawn.
    options.feed.subscribe(() => {
      this.#sample();
      if (this.#lists === options.feed.lists) return;
      void this.refresh().then(
        () => options.feed.touch(),
        () => {},
      );
    });
  }

  get unfinished(): readonly Run[] {
    const { primary } = this.#options;
    return primary.isPrimary ? [...primary.world.unfinished] : this.#stored;
  }

  /** Finished runs as the home page shows them. */
  get finished() {
    return this.#finished;
  }

  get pendingUsers(): number {
    return this.#pendingUsers;
  }

  get machines(): number {
    return this.unfinished.reduce((sum, { record }) => sum + record.workers, 0);
  }

  get now() {
    const runs = this.unfinished;
    const { primary } = this.#options;
    const sum = (of: (run: Run) => number) => runs.reduce((total, run) => total + of(run), 0);
    return {
      machines: this.machines,
      cores: sum(({ record }) => record.cores),
      gamesPerMinute: sum((run) =>
        primary.isPrimary ? run.gamesPerMinute : run.record.games_per_minute,
      ),
      nps: sum((run) => (primary.isPrimary ? run.nps : run.record.nps)),
      /** Until all runs are over; infinite without workers. */
      hours: hoursLeft(runs),
    };
  }

  /** Measurements of the last day, ten minutes apart, the newest last. */
  get samples(): readonly FleetSample[] {
    return [...this.#samples, this.now];
  }

  /** Reads the lists again if a decision has changed them, or if they are some seconds old. */
  async refresh(): Promise<void> {
    const { feed, clock, primary } = this.#options;
    const isFresh = this.#lists === feed.lists && clock.now() - this.#refreshedAt < staleMs;
    if (!isFresh) await this.#loading.run('', () => this.#load());
    feed.freshen(primary.isPrimary ? staleMs : 0);
  }

  async #load(): Promise<void> {
    const { feed, clock, source, primary, storage } = this.#options;
    const lists = feed.lists;
    const since = clock.now() - dayMs;
    const pending = storage.database.kysely
      .selectFrom('users')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('pending', '=', 1);
    const [runs, total, today, acceptedToday, waiting] = await Promise.all([
      source.finished({ pageSize: homeFinished }),
      source.countFinished({}),
      source.countFinished({ since }),
      source.countFinished({ since, successOnly: true }),
      pending.executeTakeFirstOrThrow(),
    ]);
    if (!primary.isPrimary) {
      this.#stored = [...(await source.unfinished())].map((record) => new Run(record));
    }
    this.#finished = { runs: [...runs], total, today, acceptedToday };
    this.#pendingUsers = Number(waiting.count);
    this.#refreshedAt = clock.now();
    this.#lists = lists;
  }

  #sample(): void {
    const now = this.#options.clock.now();
    if (now - this.#sampledAt < sampleMs) return;
    this.#sampledAt = now;
    this.#samples.push(this.now);
    if (this.#samples.length > samplesMax) this.#samples.shift();
  }
}
