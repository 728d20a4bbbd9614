import { randomBytes } from 'node:crypto';
import { check } from 'spillway/internal';
import type { Channel } from './channel.ts';
import type { WebSocketHubOptions } from './options.ts';

export interface FanOutStats {
  /** Broadcasts given to the channel, and those that it did not take. */
  readonly published: number;
  readonly failed: number;
  /** Broadcasts that came from other instances. */
  readonly received: number;
  /** Broadcasts of other instances that were lost, as far as they could be counted. */
  readonly lost: number;
}

/** Carries ready frames to the other instances of a hub, and theirs to this one. */
export class FanOut {
  readonly #channel: Channel | undefined;
  readonly #topic: string;
  readonly #onLost: ((count: number | undefined) => void) | undefined;
  readonly #deliver: (room: string, frame: Buffer) => void;
  /** Tells our own messages from those of others. */
  readonly #id = randomBytes(8);
  readonly #stats = { published: 0, failed: 0, received: 0, lost: 0 };
  #subscription: Disposable | undefined;

  constructor(options: WebSocketHubOptions, deliver: (room: string, frame: Buffer) => void) {
    const { name = 'sockets' } = options;
    check(name !== '' && name.length <= 100, 'name', '1 to 100 characters', name);
    this.#channel = options.channel;
    this.#topic = `hub:${name}`;
    this.#onLost = options.onLost;
    this.#deliver = deliver;
  }

  get stats(): FanOutStats {
    return { ...this.#stats };
  }

  async start(): Promise<void> {
    const listener = { message: this.#receive, lost: this.#lose };
    this.#subscription = await this.#channel?.subscribe(this.#topic, listener);
  }

  stop(): void {
    this.#subscription?.[Symbol.dispose]();
  }

  publish(room: string, frame: Buffer): void {
    if (this.#channel === undefined) return;
    const name = Buffer.from(room);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(name.length);
    const bytes = Buffer.concat([this.#id, head, name, frame]);
    this.#stats.published += 1;
    this.#channel.publish(this.#topic, bytes).catch(() => {
      this.#stats.failed += 1;
    });
  }

  readonly #receive = (bytes: Uint8Array): void => {
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (all.subarray(0, 8).equals(this.#id)) return;
    const end = 12 + all.readUInt32BE(8);
    this.#stats.received += 1;
    this.#deliver(all.toString('utf8', 12, end), all.subarray(end));
  };

  readonly #lose = (count: number | undefined): void => {
    this.#stats.lost += count ?? 1;
    this.#onLost?.(count);
  };
}
