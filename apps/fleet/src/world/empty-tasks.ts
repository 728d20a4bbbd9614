import { BoundedMap } from 'spillway';
import type { StoredWorkerInfo } from './records.ts';

type Sender = Pick<StoredWorkerInfo, 'username' | 'remote_addr'>;

interface Count {
  readonly sum: number;
  /** UNIX time in milliseconds, to which the sum belongs. */
  readonly at: number;
}

/** A task counts fully when it ends, and by a third after this time. */
const fadeMs = 3_600_000;
/**
 * Tasks for each machine that a user may have at an address. An official worker waits after each
 * failure, at last for 15 minutes, so it fails nine tasks in its first hour and then four an hour.
 */
const perMachine = 16;
/** All workers of a user may fail as many tasks as those at this number of addresses. */
const addressesMax = 64;
const countsMax = 20_000;

/**
 * Counts the tasks that ended without a game, by user and by address of a user. Each task has a
 * record for good, so a worker that asks in a loop and plays nothing must be stopped at some point.
 */
export class EmptyTasks {
  readonly #counts = new BoundedMap<string, Count>({ countMax: countsMax });

  /** Counts a task that has just ended. */
  add(sender: Sender, now: number): void {
    for (const key of [sender.username, ofAddress(sender)]) {
      this.#counts.set(key, { sum: this.#sum(key, now) + 1, at: now });
    }
  }

  /** Explains why a user with so many machines at an address gets no task; undefined if allowed. */
  refusal(sender: Sender, machineLimit: number, now: number): string | undefined {
    const { username, remote_addr } = sender;
    const atAddress = perMachine * machineLimit;
    if (this.#sum(ofAddress(sender), now) >= atAddress) {
      return text(atAddress, `${username} at ${remote_addr}`);
    }
    const inAll = addressesMax * atAddress;
    return this.#sum(username, now) < inAll ? undefined : text(inAll, username);
  }

  /** The sum at this time. It is stored with the time, so that it fades after a clock went back. */
  #sum(key: string, now: number): number {
    const count = this.#counts.get(key);
    if (count === undefined) return 0;
    const sum = count.sum * Math.exp(Math.min(0, count.at - now) / fadeMs);
    this.#counts.set(key, { sum, at: now });
    return sum;
  }
}

function ofAddress({ username, remote_addr }: Sender): string {
  return `${username} ${remote_addr}`;
}

function text(max: number, whose: string): string {
  return (
    `More than ${max} tasks of ${whose} ended without a game within about an hour. ` +
    'The output of these workers has the reasons. They get tasks again after a while.'
  );
}
