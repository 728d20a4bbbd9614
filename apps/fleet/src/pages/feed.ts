import type { Clock, Part } from 'spillway';
import { State } from 'spillway-http';
import type { Changes } from '../world/records.ts';

/** The shortest time between two versions, in ms: open pages are drawn once for all changes. */
const versionMs = 2_000;

/** Tells open pages that the world has changed; its value is the number of changes told. */
export class WorldFeed extends State<number> implements Part {
  readonly name = 'feed';
  readonly #clock: Clock;
  #lists = 0;
  #changedAt = Number.NEGATIVE_INFINITY;
  #timer: Disposable | undefined;

  constructor(clock: Clock) {
    super(0);
    this.#clock = clock;
  }

  /** Rises when a run is added, finished, revived, deleted or approved. */
  get lists(): number {
    return this.#lists;
  }

  /** Takes note of a decision. */
  note({ runs, actions, blocked }: Changes): void {
    if (actions.length > 0) this.#lists += 1;
    if (runs.size + actions.length + blocked.size === 0 || this.#timer !== undefined) return;
    this.#timer = this.#clock.after(versionMs, () => {
      this.#timer = undefined;
      this.touch();
    });
  }

  /** Makes pages that are older than this be drawn anew, so that ages on them are right. */
  freshen(ageMsMax: number): void {
    if (this.#clock.now() - this.#changedAt > ageMsMax) this.touch();
  }

  touch(): void {
    this.#changedAt = this.#clock.now();
    this.update((changes) => changes + 1);
  }

  async close(): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
