import type { FastifyInstance } from 'fastify';

/** Runs something in its time; what it throws is taken care of. */
type Limited = (run: () => unknown) => Promise<void>;

type Callback = (error?: Error | null) => void;
type Registered = (app: FastifyInstance, options: unknown, done?: Callback) => unknown;

/**
 * Makes all that is registered in this scope fail into `limited` instead of into Fastify, which
 * would give up the whole server, and leave the routes of that scope so that a request to one of
 * them ends the process.
 */
export function guardRegister(app: FastifyInstance, limited: Limited): void {
  const register = app.register as (plugin: unknown, options?: unknown) => FastifyInstance;
  const guarded = function (this: FastifyInstance, plugin: unknown, options?: unknown) {
    return register.call(this, guardedPlugin(plugin, limited), options);
  };
  // Scopes inside of this one inherit it.
  Object.defineProperty(app, 'register', { value: guarded });
}

/** Wraps a plugin; a value that is no function yet, such as a pending import, stays as it is. */
function guardedPlugin(plugin: unknown, limited: Limited): unknown {
  const { default: exported = plugin } = Object(plugin) as { default?: unknown };
  const run = typeof plugin === 'function' ? plugin : exported;
  if (typeof run !== 'function') return plugin;
  const guarded = (app: FastifyInstance, options: unknown) =>
    limited(() => called(run as Registered, app, options));
  // Its name and its wish for no scope of its own are properties of the function.
  return Object.defineProperties(guarded, Object.getOwnPropertyDescriptors(run));
}

function called(run: Registered, app: FastifyInstance, options: unknown): unknown {
  if (run.length < 3) return run(app, options);
  return new Promise<void>((resolve, reject) => {
    run(app, options, (error) => (error ? reject(error) : resolve()));
  });
}
