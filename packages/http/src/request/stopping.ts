import type { Socket } from 'node:net';
import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, systemClock } from 'spillway';
import { checkNumber } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

export interface StoppingOptions {
  /** How long running requests may go on once the server stops, in ms; 5,000 by default. */
  readonly drainMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly stopper: Stopper;
  }
}

/** How often connections that have fallen idle are looked for, in milliseconds. */
const lookMs = 20;

/** Ends the connections of a server that stops: idle ones at once, busy ones within a limit. */
class Stopper implements Disposable {
  readonly #server: { closeIdleConnections(): void };
  readonly #clock: Clock;
  readonly #drainMsMax: number;
  readonly #sockets = new Set<Socket>();
  #timer: Disposable | undefined;
  #cutAt = Infinity;

  constructor(
    server: { closeIdleConnections(): void },
    { drainMsMax = 5_000, clock = systemClock }: StoppingOptions,
  ) {
    checkNumber('drainMsMax', drainMsMax, 0);
    this.#server = server;
    this.#drainMsMax = drainMsMax;
    this.#clock = clock;
  }

  get stopping(): boolean {
    return this.#cutAt < Infinity;
  }

  /** How many connections are open, those of sockets included. */
  get connections(): number {
    return this.#sockets.size;
  }

  keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  stop(): void {
    if (this.stopping) return;
    this.#cutAt = Math.min(this.#clock.now() + this.#drainMsMax, Number.MAX_VALUE);
    this.#look();
  }

  /** Ends all connections now. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  readonly #look = (): void => {
    this.#server.closeIdleConnections();
    // To Node, who has said nothing yet is in the middle of a request.
    for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy();
    if (this.#clock.now() >= this.#cutAt) this.cut();
    this.#timer = this.#clock.after(lookMs, this.#look);
  };
}

const plugin: FastifyPluginAsync<StoppingOptions> = async (app, options) => {
  const stopper = new Stopper(app.server, options);
  app.decorate('stopper', stopper);
  app.server.on('connection', (socket: Socket) => stopper.keep(socket));
  app.addHook('onRequest', (_request, _reply, done) => {
    if (!stopper.stopping) done();
    else done(httpError('SERVER_STOPPING', 'the server is stopping', { retryAfterMs: 1_000 }));
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (stopper.stopping) reply.header('connection', 'close');
    done();
  });
  app.addHook('preClose', (done) => {
    stopper.stop();
    done();
  });
  app.addHook('onClose', async () => stopper[Symbol.dispose]());
};

/**
 * From the moment `close` is called, new requests are refused (503, `SERVER_STOPPING`), running
 * ones are finished, and idle connections end; what is left at the limit is cut. Sockets are closed
 * by whoever keeps them, in a `preClose` hook.
 */
export const stopping: FastifyPluginAsync<StoppingOptions> = fastifyPlugin(plugin, {
  name: 'spillway-stopping',
  fastify: '5.x',
});

export type { Stopper };
