import type { FastifyInstance } from 'fastify';
import { check } from 'spillway/internal';

/** A plugin: a name, its place in the order, and its hooks. */
export interface Plugin {
  /** Name in errors and stats, unique among the plugins of a server. */
  readonly name: string;
  /** Names of plugins that come first; if one of them fails, this one fails too. @default none */
  readonly after?: readonly string[] | undefined;
  /** True if the server goes on when it fails; its routes then answer 503. @default false */
  readonly failOpen?: boolean | undefined;
  /** Time that each of its hooks may take, in ms, from 1. @default that of its host */
  readonly hookMsMax?: number | undefined;
  /** Adds routes, hooks and decorators, which only this plugin sees. */
  setup?(app: FastifyInstance, signal: AbortSignal): unknown;
  /** Runs before the server listens, in order. */
  start?(signal: AbortSignal): unknown;
  /** Runs when the server closes, in reverse; only if nothing of the plugin has failed before. */
  stop?(signal: AbortSignal): unknown;
}

/** Sorts the plugins so that each comes after those it names; otherwise the order stays. */
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
