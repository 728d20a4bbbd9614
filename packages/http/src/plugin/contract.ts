import type { FastifyInstance } from 'fastify';
import { check } from 'spillway/internal';

/** What a plugin is: a name, its place in the order, and what it does at the stages of life. */
export interface Plugin {
  /** Unique among the plugins of a server; errors and the operator call it by this. */
  readonly name: string;
  /** The plugins it builds on: they come first, and if one of them fails, this one fails too. */
  readonly after?: readonly string[] | undefined;
  /** Whether the server goes on when it fails; its routes then answer 503. @default false */
  readonly failOpen?: boolean | undefined;
  /** How long each of its hooks may take, in milliseconds. @default that of its host */
  readonly hookMsMax?: number | undefined;
  /** Adds routes, hooks and decorators, which nobody outside of this plugin sees. */
  setup?(app: FastifyInstance, signal: AbortSignal): unknown;
  /** Runs before the server listens, in order. */
  start?(signal: AbortSignal): unknown;
  /** Runs when the server closes, in reverse; only if nothing of the plugin has failed before. */
  stop?(signal: AbortSignal): unknown;
}

/** The plugins in an order in which each comes after those it builds on; else as given. */
export function inOrder(plugins: readonly Plugin[]): readonly Plugin[] {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const named = [...byName.keys()].every((name) => typeof name === 'string' && name !== '');
  const names = plugins.map(({ name }) => name);
  check(named && byName.size === plugins.length, 'plugins', 'named, each differently', names);
  const ordered = new Set<Plugin>();
  const visit = (plugin: Plugin, path: readonly string[]): void => {
    if (ordered.has(plugin)) return;
    const { name, after = [] } = plugin;
    const loop = path.includes(name) ? [...path.slice(path.indexOf(name)), name] : [];
    check(loop.length === 0, 'plugins', 'without a cycle', loop.join(' after '));
    for (const earlier of after) {
      const found = byName.get(earlier);
      check(found !== undefined, `after of plugin "${name}"`, 'names of other plugins', earlier);
      visit(found, [...path, name]);
    }
    ordered.add(plugin);
  };
  for (const plugin of plugins) visit(plugin, []);
  return [...ordered];
}
