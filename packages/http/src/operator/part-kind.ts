/** What a part is, told by the shape of its stats, so that a wrapped one is known as well. */
export type PartKind =
  | 'backlog'
  | 'breaker'
  | 'bucket'
  | 'document'
  | 'file_lock'
  | 'gate'
  | 'lane'
  | 'lease'
  | 'limit'
  | 'pool'
  | 'retry_budget'
  | 'service'
  | 'snapshot'
  | 'sqlite'
  | 'write_behind';

/** What a number is, and what it is called: the field of the stats, and its help. */
export interface PartField {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
  /** All words it may say, if it says words. */
  readonly states?: readonly string[] | undefined;
}

/** A kind of part, by the fields that only its stats have. */
interface Kind {
  readonly has: readonly string[];
  readonly fields: Readonly<Record<string, PartField>>;
}

const counter = (help: string): PartField => ({ type: 'counter', help });
const gauge = (help: string): PartField => ({ type: 'gauge', help });
const state = (help: string, ...states: readonly string[]): PartField => {
  return { type: 'gauge', help, states };
};

const metered: Kind['fields'] & Record<'limit' | 'inside' | 'waiting', PartField> = {
  arrived: counter('How many ever came.'),
  started: counter('How many were ever let in.'),
  finished: counter('How many ever ended.'),
  refused: counter('How many were ever turned away.'),
  arrivalsPerSecond: gauge('Arrivals per second over the last ten to twenty seconds.'),
  inside: gauge('How many are inside now.'),
  insideMean: gauge('How many were inside on average over the last ten to twenty seconds.'),
  waiting: gauge('How many wait now.'),
  limit: gauge('How many may be inside at once.'),
  waitMs: gauge('Time from arrival to start over the last ten to twenty seconds.'),
  serviceMs: gauge('Time from start to end over the last ten to twenty seconds.'),
};

/** The first whose fields are all there is the kind: the more special come first. */
const kinds: Readonly<Record<PartKind, Kind>> = {
  lane: { has: ['arrived', 'lanes'], fields: metered },
  pool: {
    has: ['arrived', 'workers', 'recycled'],
    fields: {
      ...metered,
      workers: gauge('Worker threads by what they are doing.'),
      utilisation: gauge('The share of their life that the workers were busy, from 0 to 1.'),
      heapBytes: gauge('Bytes in use by all workers.'),
      recycled: counter('Workers replaced because of age, tasks or memory.'),
      lost: counter('Workers that ended by themselves or were ended.'),
      version: gauge('The snapshot version that tasks sent now will see.'),
    },
  },
  bucket: {
    has: ['tokens', 'taken', 'ratePerSecond'],
    fields: {
      tokens: gauge('Tokens that can be taken now.'),
      ratePerSecond: gauge('Tokens that accrue per second now.'),
      waiting: gauge('How many wait for a token.'),
      taken: counter('Tokens given out.'),
      refused: counter('Callers turned away because the queue was full.'),
      slowed: counter('How many times the rate was halved.'),
      pausedMs: gauge('Time until tokens accrue again.'),
      borrowed: gauge('Tokens that this process has reserved.'),
      trips: counter('Times the store was asked for tokens.'),
      reachable: gauge('Whether the store answers.'),
    },
  },
  breaker: {
    has: ['state', 'probing', 'opened'],
    fields: {
      state: state('1 for the state it is in.', 'closed', 'open', 'half-open'),
      calls: counter('Calls that ended.'),
      callMs: gauge('Time that calls took over the last ten to twenty seconds.'),
      failures: counter('Calls that failed.'),
      opened: counter('How many times it opened.'),
      refused: counter('Calls that were refused.'),
      reachable: gauge('Whether the store answers.'),
    },
  },
  lease: {
    has: ['fence', 'held', 'renewed'],
    fields: {
      held: gauge('Whether this process holds it.'),
      fence: gauge('The fencing number of the claim.'),
      leftMs: gauge('Time until it is given up unless it is renewed.'),
      renewed: counter('Renewals that succeeded.'),
      failed: counter('Renewals that failed.'),
    },
  },
  backlog: {
    has: ['added', 'merged', 'retrying'],
    fields: {
      added: counter('Items that were ever added.'),
      merged: counter('Items that became part of another one of their key.'),
      done: counter('Items that were done.'),
      failed: counter('Attempts that failed.'),
      dropped: counter('Items that were dropped.'),
      waiting: gauge('Items that wait.'),
      running: gauge('Items being worked on.'),
      retrying: gauge('Items that failed and wait for their next attempt.'),
    },
  },
  write_behind: {
    has: ['dirty', 'flushes'],
    fields: {
      size: gauge('Records in the cache.'),
      dirty: gauge('Records changed and not durable yet.'),
      flushing: gauge('Records being flushed.'),
      flushes: counter('Flushes that succeeded.'),
      failures: counter('Flushes that failed.'),
      oldestDirtyMs: gauge('For how long the oldest change has waited to be durable.'),
    },
  },
  sqlite: {
    has: ['groups', 'readsWaiting'],
    fields: {
      waiting: gauge('Transactions that wait for the writer.'),
      readsWaiting: gauge('Reads that wait for a reader.'),
      transactions: counter('Transactions that were acknowledged.'),
      groups: counter('Groups of transactions, each one fsync.'),
      reads: counter('Reads that were answered.'),
      restarts: counter('Threads that crashed and were started again.'),
    },
  },
  document: {
    has: ['transactions', 'writes'],
    fields: {
      waiting: gauge('Transactions that wait to be written.'),
      transactions: counter('Transactions that were acknowledged.'),
      writes: counter('Times the file was written.'),
    },
  },
  retry_budget: {
    has: ['retries', 'requests', 'tokens'],
    fields: {
      tokens: gauge('Retries that may be made now.'),
      requests: counter('Requests that were ever made.'),
      retries: counter('Retries that were ever made.'),
      refused: counter('Retries that were not made for want of budget.'),
    },
  },
  service: {
    has: ['state', 'parts'],
    fields: {
      state: state('1 for the state it is in.', 'new', 'starting', 'ready', 'closing', 'closed'),
    },
  },
  snapshot: {
    has: ['version', 'held'],
    fields: {
      version: gauge('The version that is given out now.'),
      versions: gauge('Versions that are still in use.'),
      views: gauge('Views of all versions that are still in use.'),
    },
  },
  limit: {
    has: ['size', 'sizeMax'],
    fields: {
      size: gauge('How many may be inside at once.'),
      sizeMax: gauge('The size that it never goes above.'),
      baselineMs: gauge('Time that work takes when none of it waits downstream.'),
      latencyMs: gauge('Time that work takes by the last reading.'),
      gradient: gauge('Baseline over latency: 1 when nothing waits.'),
      cuts: counter('How often a drop made it smaller.'),
      probes: counter('How often it shrank in order to measure the baseline.'),
    },
  },
  gate: {
    has: ['limit', 'inside', 'waiting'],
    fields: { limit: metered.limit, inside: metered.inside, waiting: metered.waiting },
  },
  file_lock: {
    has: ['held', 'waiting'],
    fields: {
      held: gauge('Whether this process holds it.'),
      waiting: gauge('How many callers wait for it.'),
    },
  },
};

/** The kind of part these stats are of; undefined when they are of none that is known. */
export function kindOf(stats: unknown): PartKind | undefined {
  if (typeof stats !== 'object' || stats === null) return undefined;
  const names = Object.keys(kinds) as PartKind[];
  return names.find((name) => kinds[name].has.every((field) => field in stats));
}

/** The fields of a kind that are shown as metrics. */
export function fieldsOf(kind: PartKind): Readonly<Record<string, PartField>> {
  return kinds[kind].fields;
}
