import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, deadline, type SpillwayError, systemClock } from 'spillway';
import { check, checkNumber } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plain } from '../base/plain.ts';
import { inOrder, type Plugin } from './contract.ts';
import { guardRegister } from './register.ts';

export interface PluginHostOptions {
  readonly plugins: readonly Plugin[];
  /**
   * Time that each hook may take, in milliseconds, from 1; below Fastify's own `pluginTimeout`.
   * @default 5_000
   */
  readonly hookMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

export type PluginHook = 'setup' | 'start' | 'stop';

/** Stage of a plugin; `failed` is final. */
export type PluginState = 'new' | 'set up' | 'started' | 'stopped' | 'failed';

/** Stages of all plugins, and their failures. */
export interface PluginSnapshot {
  readonly plugins: readonly {
    readonly name: string;
    readonly state: PluginState;
    readonly after: readonly string[];
    readonly failOpen: boolean;
  }[];
  /** Every hook that failed, in the order of failing. */
  readonly errors: readonly {
    readonly plugin: string;
    readonly hook: PluginHook;
    readonly error: unknown;
  }[];
}

interface Member {
  readonly plugin: Plugin;
  state: PluginState;
  failure: SpillwayError | undefined;
}

/**
 * Sets plugins up in order, each in a scope of its own, starts them and stops them in reverse:
 * `await app.register(new PluginHost({ plugins }).plugin);`
 */
export class PluginHost {
  readonly #members: ReadonlyMap<string, Member>;
  readonly #hookMsMax: number;
  readonly #clock: Clock;
  readonly #errors: PluginSnapshot['errors'][number][] = [];

  constructor(options: PluginHostOptions) {
    const { plugins, hookMsMax = 5_000, clock = systemClock } = options;
    checkNumber('hookMsMax', hookMsMax, 1);
    for (const plugin of plugins) {
      checkNumber(`hookMsMax of plugin "${plugin.name}"`, plugin.hookMsMax ?? 1, 1);
    }
    this.#members = new Map(
      inOrder(plugins).map((plugin) => {
        return [plugin.name, { plugin, state: 'new', failure: undefined }];
      }),
    );
    this.#hookMsMax = hookMsMax;
    this.#clock = clock;
  }

  get stats(): PluginSnapshot {
    const plugins = [...this.#members.values()].map(({ plugin, state }) => {
      const { name, after = [], failOpen = false } = plugin;
      return { name, state, after, failOpen };
    });
    return { plugins, errors: [...this.#errors] };
  }

  /** Fastify plugin to register on the server. */
  readonly plugin: FastifyPluginAsync = fastifyPlugin(
    async (app: FastifyInstance) => {
      const { pluginTimeout = 0 } = app.initialConfig;
      for (const member of this.#members.values()) {
        const ms = this.#msMax(member);
        const isShorter = pluginTimeout === 0 || ms < pluginTimeout;
        check(isShorter, 'hookMsMax', `below Fastify's pluginTimeout of ${pluginTimeout} ms`, ms);
        const setUp: FastifyPluginAsync = (inner) => this.#setUp(member, inner);
        // Not awaited, so that each plugin has the whole of Fastify's time-out.
        void app.register(setUp);
        app.addHook('onReady', async () => this.#start(member));
      }
      app.addHook('onClose', async () => this.#stop());
    },
    { name: 'spillway-plugin-host', fastify: '5.x' },
  );

  async #setUp(member: Member, app: FastifyInstance): Promise<void> {
    const { plugin } = member;
    // Routes of a failed plugin stay in the router, so its requests are refused here.
    app.addHook('onRequest', async () => {
      if (member.failure !== undefined) throw member.failure;
    });
    const limited = (run: (signal: AbortSignal) => unknown) => this.#run(member, 'setup', run);
    guardRegister(app, limited);
    await limited((signal) => plugin.setup?.(app, signal));
    // Plugins that it has registered itself are part of its setup.
    await app.after();
    this.#pass(member, 'set up');
  }

  async #start(member: Member): Promise<void> {
    const { plugin } = member;
    if (member.state === 'set up') {
      await this.#run(member, 'start', (signal) => plugin.start?.(signal));
    }
    try {
      this.#pass(member, 'started');
    } catch (error) {
      await this.#stop();
      throw error;
    }
  }

  /** Nothing that fails here may keep the others from being stopped. */
  async #stop(): Promise<void> {
    for (const member of [...this.#members.values()].reverse()) {
      if (member.state !== 'set up' && member.state !== 'started') continue;
      member.state = 'stopped';
      await this.#run(member, 'stop', (signal) => member.plugin.stop?.(signal));
    }
  }

  /** Moves on if nothing has failed; if something has, the server fails unless it may go on. */
  #pass(member: Member, state: PluginState): void {
    if (member.failure === undefined) member.state = state;
    else if (member.plugin.failOpen !== true) throw member.failure;
  }

  /** Runs a hook within its time; what it throws is recorded and thrown no further. */
  async #run(
    member: Member,
    hook: PluginHook,
    run: (signal: AbortSignal) => unknown,
  ): Promise<void> {
    const { plugin } = member;
    const broken = plugin.after?.find((name) => this.#members.get(name)?.failure !== undefined);
    if (broken !== undefined && hook !== 'stop') {
      const { failure } = this.#members.get(broken) as Member;
      this.#fail(member, hook, `it needs "${broken}", which failed`, failure);
      return;
    }
    using limit = deadline(this.#clock, this.#msMax(member));
    const { signal } = limit;
    const { promise: over, reject } = Promise.withResolvers<never>();
    const late = () => reject(signal.reason);
    signal.addEventListener('abort', late, { once: true });
    try {
      await Promise.race([(async () => run(signal))(), over]);
    } catch (error) {
      this.#fail(member, hook, error instanceof Error ? error.message : String(error), error);
    } finally {
      signal.removeEventListener('abort', late);
    }
  }

  #fail(member: Member, hook: PluginHook, reason: string, cause: unknown): void {
    const { name } = member.plugin;
    // A plugin that goes on trying must not fill the list.
    const isNew = !this.#errors.some((error) => error.plugin === name && error.hook === hook);
    if (isNew) this.#errors.push({ plugin: name, hook, error: plain(cause) });
    member.state = 'failed';
    const message = `plugin "${name}" failed in ${hook}: ${reason}`;
    member.failure ??= httpError('PLUGIN_FAILED', message, { cause });
  }

  #msMax({ plugin }: Member): number {
    return plugin.hookMsMax ?? this.#hookMsMax;
  }
}
