import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { type Clock, deadline, systemClock } from 'spillway';
import { clockRule, integer, or, settle, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

export interface FailOpenOptions {
  /** Time that the plugin, and each one inside it, may take, in ms, from 1. @default 5_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

const rules = { deadlineMs: or(integer(1), 5_000), clock: or(clockRule, systemClock) };

type Plugin = (app: FastifyInstance, options: never, done: never) => unknown;

/**
 * A plugin without which the server goes on: `app.register(failOpen('extra', plugin))`. If it or a
 * plugin that it registers fails or takes too long, its routes answer 503 (`PLUGIN_FAILED`). It has
 * a scope of its own.
 */
export function failOpen(
  name: string,
  plugin: Plugin,
  options: FailOpenOptions = {},
): FastifyPluginAsync {
  const settings = settle<FailOpenOptions, typeof rules>('failOpen', options, rules);
  const { deadlineMs, clock } = settings;
  return async (app) => {
    let failure: Error | undefined;
    // Routes of a failed plugin stay in the router, so its requests are refused here.
    app.addHook('onRequest', (_request, _reply, done) => done(failure));
    const guarded = async (run: () => unknown): Promise<void> => {
      using limit = deadline(clock, deadlineMs);
      try {
        await untilAborted(Promise.resolve().then(run), limit.signal);
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause);
        failure ??= httpError('PLUGIN_FAILED', `plugin "${name}" failed: ${why}`, { cause });
        app.log.error({ err: cause }, `plugin "${name}" failed; the server goes on without it`);
      }
    };
    guardRegister(app, guarded);
    await guarded(() => called(plugin, app, {}));
    // Plugins that it has registered itself are loaded by then.
    await app.after();
  };
}

type Guarded = (run: () => unknown) => Promise<void>;

/**
 * Makes all that is registered in this scope fail into `guarded` instead of into Fastify, which
 * would give up the whole server, and leave the routes of that scope so that a request to one of
 * them ends the process.
 */
function guardRegister(app: FastifyInstance, guarded: Guarded): void {
  const register = app.register as (plugin: unknown, options?: unknown) => FastifyInstance;
  const guardedRegister = function (this: FastifyInstance, plugin: unknown, options?: unknown) {
    return register.call(this, guardedPlugin(plugin, guarded), options);
  };
  // Scopes inside of this one inherit it.
  Object.defineProperty(app, 'register', { value: guardedRegister });
}

/** Wraps a plugin; a value that is no function yet, such as a pending import, stays as it is. */
function guardedPlugin(plugin: unknown, guarded: Guarded): unknown {
  const { default: exported = plugin } = Object(plugin) as { default?: unknown };
  const run = typeof plugin === 'function' ? plugin : exported;
  if (typeof run !== 'function') return plugin;
  const wrapped = (app: FastifyInstance, options: unknown) =>
    guarded(() => called(run as Plugin, app, options));
  // Its name and its wish for no scope of its own are properties of the function.
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(run));
}

function called(plugin: Plugin, app: FastifyInstance, options: unknown): unknown {
  if (plugin.length < 3) return plugin(app, options as never, undefined as never);
  return new Promise<void>((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    plugin(app, options as never, done as never);
  });
}
