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
  readonly masters: readonly { readonly client?: unknown }[];
  getSlotRandomNode(slot: number): unknown;
  sendCommand(key: string, isReadonly: boolean, args: string[], options: object): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
}

interface NodeRedisSentinel {
  acquire(): Promise<unknown>;
  duplicate(overrides: object): unknown;
}

/** A Sentinel client as this file uses a duplicate of it. */
interface OwnSentinel {
  on(event: 'error', listener: () => void): unknown;
  connect(): Promise<unknown>;
  destroy(): Promise<unknown>;
  sendCommand(isReadonly: boolean, args: string[], options: object): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
}

interface IoRedisClient {
  readonly options: object;
  readonly isCluster?: boolean;
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(): unknown;
}

/** Sends commands and receives messages by any of the clients. */
export interface RedisLink {
  /** Commands go out in the order of the calls, all to the server that holds the store. */
  send(args: readonly string[]): Promise<unknown>;
  /** False if a Cluster may redirect a command but not the one after it. */
  readonly isOneServer: boolean;
  readonly isReady: boolean;
  /** Subscribes to a channel; calls `restored` whenever messages may have been missed. */
  subscribe(channel: string, heard: Listener, restored: () => void): RedisSubscription;
  /** Replaces a connection that does not answer, if the link has opened it. */
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
  /** A key on the server of the store. */
  readonly key: string;
  readonly connectMs: number;
  /** Number of replicas that `WAIT` waits for. */
  readonly replicasMin: number;
}

/** Opens a connection for an address, or uses the client of the caller. */
export async function openLink(options: RedisLinkOptions): Promise<RedisLink> {
  const { url, client, key, connectMs, replicasMin } = options;
  if (client === undefined) return await connect(url as string, connectMs);
  if ('call' in client) return ioredisLink(client, replicasMin);
  if ('acquire' in client) return await connectSentinel(client);
  if ('getSlotRandomNode' in client) {
    for (const node of client.masters) checkNoQueue(node.client, 'defaults.disableOfflineQueue');
    const send = (args: string[]) => client.sendCommand(key, false, args, asText);
    return managedLink(client, { send, isOneServer: false, ...foreign });
  }
  checkNoQueue(client, 'disableOfflineQueue');
  return nodeRedisLink(client as ReturnType<typeof createClient>);
}

function checkNoQueue(client: unknown, option: string): void {
  // A node of a cluster may not have been connected to yet.
  const hasQueue = client !== undefined && !Object(client).options?.disableOfflineQueue;
  check(!hasQueue, 'client', `made with ${option}: true`, false);
}

/**
 * Connects a duplicate of a Sentinel client. The client itself would repeat a command whose answer
 * was lost, even on the next master, and send two concurrent commands on two connections.
 */
async function connectSentinel(given: NodeRedisSentinel): Promise<RedisLink> {
  const own = { maxCommandRediscovers: 0, reserveClient: true, masterPoolSize: 1 };
  const client = given.duplicate(own) as OwnSentinel;
  client.on('error', () => {});
  await client.connect();
  return managedLink(client, {
    send: (args) => client.sendCommand(false, args, asText),
    isOneServer: true,
    reset: () => {},
    close: () => void client.destroy().catch(() => {}),
  });
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
 * Options of each command. Answers are text, whatever types the client is configured for. The
 * client gets no time limit, since the store has one, and the client keeps each timer for five
 * seconds after the answer: 40,000 timers at 8,000 commands a second.
 */
const asText = { timeout: 0, typeMapping: {} };

/** A client of the caller is neither closed nor replaced. */
const foreign = { reset: () => {}, close: () => {} };

function nodeRedisLink(
  client: ReturnType<typeof createClient>,
  own: Pick<RedisLink, 'reset' | 'close'> = foreign,
): RedisLink {
  return {
    send: (args) => client.sendCommand(args, asText),
    isOneServer: true,
    get isReady() {
      return client.isReady;
    },
    subscribe(channel, heard, restored) {
      const listener = client.duplicate();
      let isSubscribed = false;
      let isOver = false;
      listener.on('error', () => {});
      listener.on('ready', () => {
        // A connection that was being made when the subscription ended arrives all the same.
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

/** Links a Cluster or Sentinel client, which replaces connections without an event. */
function managedLink(
  client: Pick<OwnSentinel, 'subscribe'>,
  {
    send,
    ...own
  }: Pick<RedisLink, 'isOneServer' | 'reset' | 'close'> & {
    readonly send: (args: string[]) => Promise<unknown>;
  },
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
    ...own,
  };
}

interface IoRedisListener {
  readonly status: string;
  on(event: string, listener: (...args: never[]) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/**
 * Options without which ioredis runs a command twice, or waits for ever. Scripts compute the keys
 * of records, which would not match if the client added a prefix to the other keys.
 */
const needed = {
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  keyPrefix: '',
} as const;
/** A Cluster also runs a command twice if it tries again after a connection was lost. */
const neededOfCluster = { ...needed, retryDelayOnFailover: 0 } as const;

function ioredisLink(client: IoRedisClient, replicasMin: number): RedisLink {
  const all = client.options as Record<string, unknown>;
  const { isCluster = false } = client;
  const options = { ...all, ...(all.redisOptions as object | undefined) } as typeof all;
  for (const [name, value] of Object.entries(isCluster ? neededOfCluster : needed)) {
    const given = options[name] ?? '';
    check(given === value, `client.options.${name}`, JSON.stringify(value), given);
  }
  // A Cluster of ioredis sends WAIT to any of its servers.
  const rule = '0 with a Cluster of ioredis; one of node-redis can wait';
  check(!isCluster || replicasMin === 0, 'replicasMin', rule, replicasMin);
  return {
    send: ([command, ...args]) => client.call(command as string, ...args),
    isOneServer: !isCluster,
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
      // If the connection breaks again, the next `ready` tries again.
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
