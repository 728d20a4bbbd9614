import { nextTurn } from 'spillway/internal';
import type { HubSocket } from './socket.ts';

/** How a broadcast went on this instance. */
export interface BroadcastResult {
  /** How many sockets were sent the message. */
  readonly sent: number;
  /** How many were not: they had closed, or read too slowly. */
  readonly dropped: number;
}

interface Broadcast extends PromiseWithResolvers<BroadcastResult> {
  readonly frame: Buffer;
  /** Who was in the room when it was called. */
  readonly members: readonly HubSocket[];
  readonly room: string;
  at: number;
  sent: number;
}

/** How many sockets are served before the event loop turns: about a millisecond (2026-11). */
const sliceMax = 128;

/** Sends to many sockets a slice at a time, one broadcast after the other. */
export class BroadcastQueue {
  readonly #queue: Broadcast[] = [];

  get size(): number {
    return this.#queue.length;
  }

  /** The first slice is sent before this returns, unless others are under way. */
  push(room: string, members: readonly HubSocket[], frame: Buffer): Promise<BroadcastResult> {
    const resolvers = Promise.withResolvers<BroadcastResult>();
    this.#queue.push({ room, members, frame, at: 0, sent: 0, ...resolvers });
    if (this.#queue.length === 1) this.#sendSlice();
    return resolvers.promise;
  }

  readonly #sendSlice = (): void => {
    let left = sliceMax;
    while (left > 0) {
      const current = this.#queue[0];
      if (current === undefined) return;
      const { members, frame, room } = current;
      const end = Math.min(members.length, current.at + left);
      left -= end - current.at + 1;
      for (; current.at < end; current.at += 1) {
        const socket = members[current.at] as HubSocket;
        if (socket.rooms.has(room) && socket.sendFrame(frame)) current.sent += 1;
      }
      if (end < members.length) break;
      this.#queue.shift();
      current.resolve({ sent: current.sent, dropped: members.length - current.sent });
    }
    if (this.#queue.length > 0) nextTurn(this.#sendSlice);
  };
}

/** Calls back for each of them, a slice at a time, so that the event loop keeps turning. */
export async function inSlices<T>(items: readonly T[], each: (item: T) => void): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % sliceMax === 0) await new Promise<void>(nextTurn);
    each(item);
  }
}
