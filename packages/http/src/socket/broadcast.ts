import { randomBytes } from 'node:crypto';
import { nextTurn } from 'spillway/internal';
import * as ws from 'ws';
import type { Channel } from './channel.ts';
import type { HubLimits } from './limits.ts';
import type { HubSocket } from './socket.ts';

/** Content of a message: text, or bytes. */
export type SocketMessage = string | Uint8Array;

/** The part of ws that writes frames; its types leave it out. */
const { Sender } = ws as unknown as {
  readonly Sender: {
    frame(data: Buffer, options: { readonly fin: true; readonly opcode: number }): Buffer[];
  };
};

/** A message as one frame. A server's frames are not masked, so many sockets can share it. */
export function socketFrame(message: SocketMessage): Buffer {
  const opcode = typeof message === 'string' ? 1 : 2;
  return Buffer.concat(Sender.frame(Buffer.from(message as string), { fin: true, opcode }));
}

/** Outcome of a broadcast on this instance. */
export interface BroadcastResult {
  /** Sockets that were sent the message. */
  readonly sent: number;
  /** Sockets that were not: they had closed, or read too slowly. */
  readonly dropped: number;
}

interface Broadcast extends PromiseWithResolvers<BroadcastResult> {
  readonly frame: Buffer;
  /** Members of the room when the broadcast was called. */
  readonly members: readonly HubSocket[];
  readonly room: string;
  at: number;
  sent: number;
}

/** Sockets served before the event loop turns: about a millisecond of work (2026-11). */
const sliceMax = 128;

/** Sends to many sockets a slice at a time, one broadcast after the other. */
export class BroadcastQueue {
  readonly #queue: Broadcast[] = [];

  get size(): number {
    return this.#queue.length;
  }

  /** Sends the first slice before it returns, unless other broadcasts are under way. */
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

/** Calls back for each item, a slice at a time, so that the event loop keeps turning. */
export async function inSlices<T>(items: readonly T[], each: (item: T) => void): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % sliceMax === 0) await new Promise<void>(nextTurn);
    each(item);
  }
}

export interface RelayStats {
  /** Broadcasts given to the channel. */
  readonly published: number;
  /** Broadcasts that the channel did not take. */
  readonly failed: number;
  /** Broadcasts that came from other instances. */
  readonly received: number;
  /** Broadcasts of other instances that were lost, as far as they could be counted. */
  readonly lost: number;
}

const idBytes = 8;

/**
 * Relays ready frames between the instances of a hub. A message on the channel:
 *
 *     | sender's id, 8 bytes | length of the room's name, 4 bytes | room | frame |
 */
export class Relay {
  readonly #channel: Channel | undefined;
  readonly #topic: string;
  readonly #deliver: (room: string, frame: Buffer) => void;
  /** Tells messages of this instance from those of others. */
  readonly #id = randomBytes(idBytes);
  readonly #stats = { published: 0, failed: 0, received: 0, lost: 0 };
  #subscription: Disposable | undefined;

  constructor(options: HubLimits, deliver: (room: string, frame: Buffer) => void) {
    this.#channel = options.channel;
    this.#topic = `hub:${options.name}`;
    this.#deliver = deliver;
  }

  get stats(): RelayStats {
    return { ...this.#stats };
  }

  get ready(): boolean {
    return this.#channel === undefined || this.#subscription !== undefined;
  }

  async start(): Promise<void> {
    const listener = { message: this.#receive, lost: this.#lose };
    this.#subscription = await this.#channel?.subscribe(this.#topic, listener);
  }

  close(): void {
    this.#subscription?.[Symbol.dispose]();
  }

  publish(room: string, frame: Buffer): void {
    if (this.#channel === undefined) return;
    const name = Buffer.from(room);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(name.length);
    const bytes = Buffer.concat([this.#id, length, name, frame]);
    this.#stats.published += 1;
    this.#channel.publish(this.#topic, bytes).catch(() => {
      this.#stats.failed += 1;
    });
  }

  readonly #receive = (bytes: Uint8Array): void => {
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (all.subarray(0, idBytes).equals(this.#id)) return;
    const nameAt = idBytes + 4;
    const frameAt = nameAt + all.readUInt32BE(idBytes);
    this.#stats.received += 1;
    this.#deliver(all.toString('utf8', nameAt, frameAt), all.subarray(frameAt));
  };

  readonly #lose = (count: number | undefined): void => {
    this.#stats.lost += count ?? 1;
  };
}
