import { deadline, type Part, SingleFlight, SpillwayError } from 'spillway';
import { nextTurn, onceAborted, untilAborted } from 'spillway/internal';
import { httpError } from 'spillway-http';
import { ChangeWriter } from '../storage/change-writer.ts';
import type { Waiter } from '../users/password.ts';
import { restore, shareThroughput } from '../world/manage.ts';
import type { Changes, Decision } from '../world/records.ts';
import { settle } from '../world/update-task.ts';
import { World } from '../world/world.ts';
import { type Claim, type ClaimOptions, claim } from './claim.ts';

export interface PrimaryOptions extends Omit<ClaimOptions, 'onWon'> {
  /** Shortest wait for a claim that another instance holds, in milliseconds, from 0. @default 0 */
  readonly patienceMs?: number | undefined;
  /** Called with the changes of every decision once they are durable. @default not called */
  readonly onStored?: ((changes: Changes) => void) | undefined;
}

/** State of an instance; see {@link Primary}. */
type PrimaryState = 'seeking' | 'standby' | 'loading' | 'deciding';

/** One time of being the primary. */
interface Term {
  readonly claim: Claim;
  readonly world: World;
  readonly writer: ChangeWriter;
  /** Finished runs that are being loaded; the lanes bound how many callers ask at once. */
  readonly recalls: SingleFlight<void>;
}

const retryMs = 1_000;

/**
 * The world in memory, while this instance is the only one that has it. It is loaded when the
 * claim is won and dropped when it is lost; what an instance decides after that is not stored.
 *
 *     seeking ───── claim won ─────▶ loading ── world is loaded ──▶ deciding
 *        │                              ▲                              │
 *        └─ another one holds it ─▶ standby (until the claim is won)   │
 *     seeking ◀──── claim lost, or the database failed, in any state ──┘
 */
export class Primary implements Part {
  readonly name = 'primary';
  readonly #options: PrimaryOptions;
  readonly #end = new AbortController();
  /** Resolves when it decides or stands by for the first time; rejects if it failed before. */
  readonly #started = Promise.withResolvers<void>();
  #state: PrimaryState = 'seeking';
  /** Set while it decides. */
  #term: Term | undefined;
  #serving: Promise<void> | undefined;
  #isSettling = false;

  constructor(options: PrimaryOptions) {
    this.#options = options;
    this.#started.promise.catch(() => {});
  }

  /** True if this instance decides. */
  get isPrimary(): boolean {
    return this.#term?.claim.held === true;
  }

  /** Like {@link isPrimary}, but throws `DATABASE_LOST` while no instance is known to decide. */
  decides(): boolean {
    if (this.isPrimary || this.#state === 'standby') return this.isPrimary;
    throw new SpillwayError('DATABASE_LOST', 'no primary yet', { retryAfterMs: retryMs });
  }

  /** All but the state are undefined unless this instance decides. */
  get stats() {
    const { claim: mine, world, writer } = this.#term ?? {};
    const own = { fence: mine?.fence, fleet: world?.stats, writer: writer?.stats };
    return { state: this.#state, ...own };
  }

  /** The world, to read; throws `NOT_PRIMARY` if another instance has it. */
  get world(): World {
    return this.#current().world;
  }

  /** Makes a decision; resolves with its reply once its changes are durable. */
  async decide<Reply>(work: (world: World) => Decision<Reply>): Promise<Reply> {
    const { world, writer } = this.#current();
    writer.assertRoom();
    const { reply, changes } = decided(work, world, writer);
    await writer.store(changes);
    this.#options.onStored?.(changes);
    if (world.isUnsettled && !this.#isSettling) this.#settle();
    return reply;
  }

  /** Does the rest of a large decision in small steps; other decisions get turns in between. */
  #settle(): void {
    this.#isSettling = true;
    nextTurn(() => {
      this.#isSettling = false;
      // If it fails, the next decision tries again.
      if (this.isPrimary) this.change((world) => settle(world)).catch(() => {});
    });
  }

  /** Makes a decision without a reply; resolves once its changes are durable. */
  async change(work: (world: World) => Changes): Promise<void> {
    await this.decide((world) => ({ reply: undefined, changes: work(world) }));
  }

  /** Loads a finished run into memory, if it exists and is not there yet. */
  async recall(id: string, waiter?: Waiter): Promise<void> {
    const term = this.#current();
    if (term.world.run(id) !== undefined) return;
    const key = id.toLowerCase();
    await term.recalls.run(key, () => this.#recall(term, key), { signal: waiter?.signal });
  }

  async #recall({ world }: Term, id: string): Promise<void> {
    const run = await this.#options.storage.run(id);
    if (run?.record.finished) world.recall(run);
  }

  /** Resolves when this instance decides, or when the claim of a crashed one would have ended. */
  async start({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    this.#serving = this.#serve();
    try {
      await untilAborted(this.#started.promise, signal);
    } catch (error) {
      // Nobody else closes a part that failed to start.
      await this.close();
      throw error;
    }
  }

  /** Stores all decisions, then gives up the claim. */
  async close(): Promise<void> {
    this.#end.abort();
    await this.#serving;
  }

  #current(): Term {
    const term = this.#term;
    if (term !== undefined && this.decides()) return term;
    throw httpError('NOT_PRIMARY', 'this instance is not the primary', { retryAfterMs: retryMs });
  }

  async #serve(): Promise<void> {
    const { clock, leaseMs, lockPath } = this.#options;
    const { signal } = this.#end;
    const usualMs = retryMs + (lockPath === undefined ? 1.5 * leaseMs : 0);
    const patienceMs = Math.max(usualMs, this.#options.patienceMs ?? 0);
    while (!signal.aborted) {
      using patience = clock.after(patienceMs, () => this.#enter('standby'));
      // On a busy machine, reading the fence may take longer than the patience lasts.
      const onWon = () => patience[Symbol.dispose]();
      try {
        await using mine = await claim({ ...this.#options, onWon }, signal);
        await this.#hold(mine);
      } catch (error) {
        if (signal.aborted) return;
        patience[Symbol.dispose]();
        this.#enter('seeking');
        this.#started.reject(error);
        using pause = deadline(clock, retryMs, signal);
        await onceAborted(pause.signal);
      }
    }
  }

  #enter(state: PrimaryState, term?: Term): void {
    this.#state = state;
    this.#term = term;
    if (state === 'standby' || state === 'deciding') this.#started.resolve();
  }

  async #hold(mine: Claim): Promise<void> {
    this.#enter('loading');
    const { storage, clock, random } = this.#options;
    const world = new World({ clock, random });
    const { database } = storage;
    const writer = new ChangeWriter({ database, world, fence: mine.fence, clock });
    try {
      await writer.claim();
      await writer.store(restore(world, await storage.load()));
      await writer.store(shareThroughput(world));
      mine.signal.throwIfAborted();
      this.#enter('deciding', { claim: mine, world, writer, recalls: new SingleFlight() });
      await onceAborted(AbortSignal.any([mine.signal, writer.signal, this.#end.signal]));
      if (mine.held) await writer.flush();
    } finally {
      this.#enter('seeking');
      writer.close();
    }
  }
}

/**
 * Runs a decision. An unexpected error may leave the world half changed: it closes the writer, so
 * that the world is loaded again from the database.
 */
function decided<Reply>(
  work: (world: World) => Decision<Reply>,
  world: World,
  writer: ChangeWriter,
): Decision<Reply> {
  try {
    return work(world);
  } catch (error) {
    if (!(error instanceof SpillwayError)) writer.close();
    throw error;
  }
}
