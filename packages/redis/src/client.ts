import { createClient } from '@redis/client';
import { check } from 'spillway/internal';

type Listener = (message: string) => void;

/** The part of a client that a {@link RedisStore} uses; see the README for what each needs. */
export type RedisClient = NodeRedisClient | NodeRedisCluster | NodeRedisSentinel | IoRedisClient;

interface NodeRedisClient {
  readonly isReady: boolean;
  readonly options?: { readonly disableOfflineQueue?: boolean } | undefined;
  sendCommand(args: readonly string[]): Promise<unknown>;
  duplicate(): unknown;
}

interface NodeRedisCluster {
  getSlotRandomNode(slot: number): unknown;
  sendCommand(key: string, isReadonly: boolean, args: string[]): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
}

interface NodeRedisSentinel {
  acquire(): Promise<unknown>;
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
}

interface IoRedisClient {
  readonly options: object;
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(): unknown;
}

/** One way to send commands and to hear messages, whatever the client. */
export interface RedisLink {
  /** Commands go out in the order of the calls, all to the server that holds the store. */
  send(args: readonly string[]): Promise<unknown>;
  readonly isReady: boolean;
  /** Hears a channel; `restored` is called each time when messages may have been missed. */
  subscribe(channel: string, heard: Listener, restored: () => void): RedisSubscription;
  /** Replaces a connection that does not answer, if it is the link's own. */
  reset(): void;
  close(): void;
}

export interface RedisSubscription extends Disposable {
  /** False while messages may be missed. */
  readonly isLive: boolean;
}

export interface RedisLinkOptions {
  readonly url?: string | undefined;
  readonly client?: RedisClient | undefined;
  /** A key that lives on the server of the store. */
  readonly key: string;
  readonly connectMs: number;
}

/** Opens a connection of its own for an address, or uses a client that was given. */
export async function openLink(options: RedisLinkOptions): Promise<RedisLink> {
  const { url, client, key, connectMs } = options;
  if (client === undefined) return await connect(url as string, connectMs);
  if ('call' in client) return ioredisLink(client);
  if ('getSlotRandomNode' in client) {
    return managedLink(client, (args) => client.sendCommand(key, false, args));
  }
  if ('acquire' in client) return managedLink(client, (args) => client.sendCommand(false, args));
  const hasQueue = client.options?.disableOfflineQueue !== true;
  check(!hasQueue, 'client', 'made with disableOfflineQueue: true', false);
  return nodeRedisLink(client as ReturnType<typeof createClient>);
}

async function connect(url: string, connectMs: number): Promise<RedisLink> {
  let isOpen = false;
  const client = createClient({
    url,
    disableOfflineQueue: true,
    socket: {
      connectTimeout: connectMs,
      reconnectStrategy: (retries, cause) => (isOpen ? Math.min(2_000, 2 ** retries * 20) : cause),
    },
  });
  client.on('error', () => {});
  await client.connect();
  isOpen = true;
  return nodeRedisLink(client as ReturnType<typeof createClient>, {
    reset: () => {
      if (!client.isReady) return;
      client.destroy();
      void client.connect().catch(() => {});
    },
    close: () => client.destroy(),
  });
}

/**
 * Takes the client's own time limit off a command: the store has one, and at 8,000 commands a
 * second the client keeps 40,000 timers, since each stays for five seconds after the answer.
 */
const noTimeout = { timeout: 0 };

/** A client that was given is neither closed nor replaced. */
const foreign = { reset: () => {}, close: () => {} };

function nodeRedisLink(
  client: ReturnType<typeof createClient>,
  own: Pick<RedisLink, 'reset' | 'close'> = foreign,
): RedisLink {
  return {
    send: (args) => client.sendCommand(args, noTimeout),
    get isReady() {
      return client.isReady;
    },
    subscribe(channel, heard, restored) {
      const listener = client.duplicate();
      let isSubscribed = false;
      let isOver = false;
      listener.on('error', () => {});
      listener.on('ready', () => {
        // A connection that was on its way when the subscription ended comes all the same.
        if (isOver) listener.destroy();
        else if (isSubscribed) restored();
      });
      const open = async () => {
        await listener.connect();
        await listener.subscribe(channel, heard);
        isSubscribed = true;
        restored();
      };
      void open().catch(() => {});
      return {
        get isLive() {
          return isSubscribed && listener.isReady;
        },
        [Symbol.dispose]: () => {
          isOver = true;
          if (listener.isReady) listener.destroy();
        },
      };
    },
    ...own,
  };
}

/** Clusters and Sentinels keep their own connections and do not tell when one was replaced. */
function managedLink(
  client: NodeRedisCluster | NodeRedisSentinel,
  send: (args: string[]) => Promise<unknown>,
): RedisLink {
  return {
    send: (args) => send([...args]),
    isReady: true,
    subscribe(channel, heard) {
      let isOver = false;
      const hear: Listener = (message) => isOver || heard(message);
      void client.subscribe(channel, hear).catch(() => {});
      return {
        isLive: false,
        [Symbol.dispose]: () => {
          isOver = true;
        },
      };
    },
    ...foreign,
  };
}

interface IoRedisListener {
  readonly status: string;
  on(event: string, listener: (...args: never[]) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/**
 * The options of ioredis without which it runs a command twice, or waits for ever. Scripts reckon
 * the keys of records: a prefix, which the client puts before some keys only, would hide them.
 */
const needed = {
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  keyPrefix: '',
} as const;

function ioredisLink(client: IoRedisClient): RedisLink {
  const all = client.options as Record<string, unknown>;
  const options = { ...all, ...(all.redisOptions as object | undefined) } as typeof all;
  for (const [name, value] of Object.entries(needed)) {
    const given = options[name] ?? '';
    check(given === value, `client.options.${name}`, JSON.stringify(value), given);
  }
  return {
    send: ([command, ...args]) => client.call(command as string, ...args),
    get isReady() {
      return (client as { readonly status?: string }).status === 'ready';
    },
    subscribe(channel, heard, restored) {
      const listener = client.duplicate() as IoRedisListener;
      let isLive = false;
      listener.on('error', () => {});
      listener.on('message', (_channel: string, message: string) => heard(message));
      listener.on('close', () => {
        isLive = false;
      });
      const begin = async () => {
        await listener.subscribe(channel);
        isLive = true;
        restored();
      };
      // If the connection breaks again, the next `ready` tries anew.
      listener.on('ready', () => void begin().catch(() => {}));
      return {
        get isLive() {
          return isLive;
        },
        [Symbol.dispose]: () => listener.disconnect(),
      };
    },
    ...foreign,
  };
}
