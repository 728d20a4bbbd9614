import type { FastifyRequest } from 'fastify';
import { addressKey } from '../base/address-key.ts';
import { httpError } from '../base/errors.ts';
import type { HubLimits } from './options.ts';

/** When to come back if there is no room; sockets live long, so a second would be too short. */
const retryAfterMs = 5_000;

/** Decides before the upgrade who may have a socket, and counts those who have one. */
export class HubDoor {
  readonly #limits: HubLimits;
  readonly #origins: ReadonlySet<string> | undefined;
  /** How many sockets each address has; as many entries as sockets at most. */
  readonly #perAddress = new Map<string, number>();
  #inside = 0;
  #closed = false;
  readonly refused = { full: 0, origin: 0 };

  constructor(limits: HubLimits, origins: readonly string[] | undefined) {
    this.#limits = limits;
    this.#origins = origins === undefined ? undefined : new Set(origins);
  }

  close(): void {
    this.#closed = true;
  }

  /** Takes a place, which is free again when the connection has closed; throws if there is none. */
  enter(request: FastifyRequest): void {
    if (this.#closed) throw httpError('SERVER_STOPPING', 'the server takes no more sockets');
    const { origin } = request.headers;
    if (origin !== undefined && !this.#isAllowed(origin, request)) {
      this.refused.origin += 1;
      throw httpError('SOCKET_ORIGIN', 'sockets from this origin are not allowed');
    }
    const { socket } = request.raw;
    // Its close may have been told already, and the place would never be free again.
    if (socket.destroyed) return;
    const key = addressKey(request.ip);
    const same = this.#perAddress.get(key) ?? 0;
    const isFull = this.#inside >= this.#limits.socketsMax;
    if (isFull || same >= this.#limits.socketsPerAddressMax) {
      this.refused.full += 1;
      const whose = isFull ? 'in all' : 'from this address';
      const count = isFull ? this.#inside : same;
      throw httpError('SOCKETS_FULL', `${count} sockets are open ${whose}`, { retryAfterMs });
    }
    this.#inside += 1;
    this.#perAddress.set(key, same + 1);
    socket.once('close', () => this.#leave(key));
  }

  #leave(key: string): void {
    this.#inside -= 1;
    const left = (this.#perAddress.get(key) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(key);
    else this.#perAddress.set(key, left);
  }

  /** Only browsers send an origin, and only their users need protection from other sites. */
  #isAllowed(origin: string, request: FastifyRequest): boolean {
    if (this.#origins !== undefined) return this.#origins.has(origin);
    return URL.canParse(origin) && new URL(origin).host === request.host.toLowerCase();
  }
}
