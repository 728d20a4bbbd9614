import type { Clock, Part } from 'spillway';
import { State } from 'spillway-http';
import type { Changes } from '../world/records.ts';

/** The shortest time between two versions, in ms: open pages are drawn once for all changes. */
const versionMs = 2_000;

/** Notifies open pages of changes of the world; its value counts the notifications. */
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

  /** Notes the changes of a decision. */
  note({ runs, actions, blocked }: Changes): void {
    if (actions.length > 0) this.#lists += 1;
    if (runs.size + actions.length + blocked.size === 0 || this.#timer !== undefined) return;
    this.#timer = this.#clock.after(versionMs, () => {
      this.#timer = undefined;
      this.touch();
    });
  }

  /** Redraws open pages that are older than this, so that the ages on them are right. */
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
