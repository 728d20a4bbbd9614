import { createHash } from 'node:crypto';
import {
  type Clock,
  type HarvestCheckpoint,
  type Json,
  Lease,
  type Random,
  type Store,
  type StoreChange,
  type StoredRecord,
} from 'spillway';
import type { TradePosition } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';
import type { Folder, FolderFile } from '../files/folder.ts';
import { type RawEntry, type RawFile, rawFilesOf } from '../files/raw-file.ts';

/** The stored progress of one generation of a product. */
export interface ProductCheckpoint {
  readonly harvest: HarvestCheckpoint<TradePosition>;
  /** Position at which the history begins. */
  readonly begin: TradePosition;
  /** Address that the records came from; checkpoints of older programs have none. */
  readonly address?: string;
  /** Trades committed so far. */
  readonly trades: number;
  /** The highest id committed; 0 for none. */
  readonly highestId: number;
  /** Gaps that a person has accepted by `ingest gaps accept`; they are not fetched again. */
  readonly accepted?: readonly AcceptedGap[];
  /** Progress of comparing the feed with REST; undefined if no trade came by a feed. */
  readonly feed?: FeedProof;
  /** The run that wrote the checkpoint, and when (ISO 8601 in UTC). */
  readonly runId: string;
  readonly updatedAt: string;
}

/** Positions from `from` to below `to`. */
export type AcceptedGap = { readonly from: TradePosition; readonly to: TradePosition };

/** The comparison of a feed's trades with the REST API. */
export interface FeedProof {
  /** Ids not compared yet, from `from` to below `to`; both are equal if none is left. */
  readonly from: number;
  readonly to: number;
  /** Number of trades that differ from REST, and a description of the first. */
  readonly contradicted: number;
  readonly contradiction: string | null;
}

/** Increased when an older program could misread the record. */
const schemaVersion = 1;

/** Makes the record of a checkpoint: with a version, and a checksum over all of it. */
export function checkpointRecord(checkpoint: ProductCheckpoint): Json {
  const body = { schemaVersion, ...checkpoint } as unknown as { readonly [key: string]: Json };
  return { ...body, checksum: checksumOf(body) };
}

/** Reads a record; refuses one that is damaged or was written by a newer program. */
export function readCheckpoint(name: string, record: Json): ProductCheckpoint {
  const isObject = typeof record === 'object' && record !== null && !Array.isArray(record);
  const { checksum, ...body } = (isObject ? record : {}) as { readonly [key: string]: Json };
  const version = body.schemaVersion;
  if (typeof version === 'number' && version > schemaVersion) {
    const message = `${name}: its schemaVersion is ${version}, this program knows ${schemaVersion}`;
    throw ingestError('CHECKPOINT_FUTURE', `${message}; nothing was changed, use a newer one`);
  }
  const expected = checksumOf(body);
  if (version !== schemaVersion || checksum !== expected) {
    const what = version === schemaVersion ? 'its checksum does not fit' : 'it is no checkpoint';
    const remedy = 'nothing was changed; restore the store, or make the product anew with';
    const message = `${name}: ${what}; ${remedy} --full-refresh`;
    throw ingestError('CHECKPOINT_UNREADABLE', message);
  }
  const { schemaVersion: _known, ...checkpoint } = body;
  return checkpoint as unknown as ProductCheckpoint;
}

function checksumOf(body: Json): string {
  return createHash('sha256').update(canonical(body)).digest('hex');
}

/** JSON with sorted keys: a database may return them in any order. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_key, part: Json) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** The generation of a product in use, and the one that a full refresh is building. */
export interface Generations {
  readonly current: number;
  readonly building: number | undefined;
}

/** One generation of a product. */
export interface ProductGeneration {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
}

const namesMax = 5_000;

/** The name of a generation in the names of its lease, checkpoint and ledger. */
export function sourceName({ exchange, product, generation }: ProductGeneration): string {
  return `${exchange}/${product}/${generation}`;
}

/** The records of one exchange's products in the store: generations, checkpoints, ledger. */
export class ProductLedger {
  readonly #store: Store;
  readonly exchange: string;

  constructor(store: Store, exchange: string) {
    this.#store = store;
    this.exchange = exchange;
  }

  /** Every exchange or source with a harvested product. */
  static async exchanges(store: Store, signal?: AbortSignal): Promise<readonly string[]> {
    const records = await store.list('generation/', { max: 10_000, signal });
    return [...new Set(records.map(({ name }) => name.split('/')[1] as string))];
  }

  static checkpointName(source: string): string {
    return `checkpoint/${source}`;
  }

  static ledgerName(source: string, commit: number): string {
    return `raw/${source}/${String(commit).padStart(9, '0')}`;
  }

  /** Every harvested product, by name. */
  async products(signal?: AbortSignal): Promise<readonly string[]> {
    const prefix = `generation/${this.exchange}/`;
    const records = await this.#store.list(prefix, { max: 10_000, signal });
    return records.map(({ name }) => name.slice(prefix.length));
  }

  async generations(product: string, signal?: AbortSignal): Promise<Generations> {
    return generationsOf(await this.#generationRecord(product, signal));
  }

  /** The generation of a product in use. */
  async current(product: string, signal?: AbortSignal): Promise<ProductGeneration> {
    const { current: generation } = await this.generations(product, signal);
    return { exchange: this.exchange, product, generation };
  }

  /** Creates the record of a product, so that listings show it. */
  async begin(product: string, signal?: AbortSignal): Promise<Generations> {
    return this.#change(product, (now) => now, signal);
  }

  /** Returns the generation that a full refresh builds, above `after`; continues one if begun. */
  async beginRefresh(product: string, signal?: AbortSignal, after = 0): Promise<number> {
    const next = ({ current, building = 0 }: Generations) => {
      return building > after ? building : Math.max(current, after) + 1;
    };
    const change = (now: Generations) => ({ ...now, building: next(now) });
    return (await this.#change(product, change, signal)).building as number;
  }

  /**
   * Puts the generation that was built in the place of the current one, whose writers are refused
   * from then on. `compare` throws to prevent it. The commit fails if either checkpoint has changed
   * since the comparison.
   */
  async swap(
    of: ProductGeneration,
    compare: (built: ProductCheckpoint, before: ProductCheckpoint) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    const { product, generation } = of;
    const name = this.#generationName(product);
    for (;;) {
      const { current } = await this.generations(product, signal);
      if (current === generation) return;
      const [old, built] = [current, generation].map((one) =>
        ProductLedger.checkpointName(sourceName({ ...of, generation: one })),
      ) as [string, string];
      const { records } = await this.#store.read([name, old, built], { signal });
      const [now, oldRecord, builtRecord] = records;
      if (generationsOf(now).current !== current) continue;
      if (generationsOf(now).building !== generation) throw replaced(of, current);
      const before = oldRecord && readable(old, oldRecord.value);
      const after = builtRecord && readCheckpoint(built, builtRecord.value);
      if (before !== undefined && after !== undefined) compare(after, before);
      const changes = [
        { name, ifVersion: now?.version ?? 0, value: { current: generation, building: null } },
        { name: old, ifVersion: oldRecord?.version ?? 0, checkOnly: true },
        { name: built, ifVersion: builtRecord?.version ?? 0, checkOnly: true },
      ];
      if ((await this.#store.commit(changes, { signal })) !== undefined) return;
    }
  }

  /** A condition that makes a store refuse commits to a generation that was replaced. */
  async guard(of: ProductGeneration, signal?: AbortSignal): Promise<StoreChange> {
    const name = this.#generationName(of.product);
    const record = await this.#generationRecord(of.product, signal);
    const { current, building } = generationsOf(record);
    if (of.generation !== current && of.generation !== building) {
      throw replaced(of, current);
    }
    return { name, ifVersion: record?.version ?? 0, checkOnly: true };
  }

  async checkpoint(
    of: ProductGeneration,
    signal?: AbortSignal,
  ): Promise<ProductCheckpoint | undefined> {
    const name = ProductLedger.checkpointName(sourceName(of));
    const { records } = await this.#store.read([name], { signal });
    return records[0] && readCheckpoint(name, records[0].value);
  }

  /** Adds the result of a comparison to the checkpoint. */
  async noteCompared(
    of: ProductGeneration,
    compared: FeedProof,
    signal?: AbortSignal,
  ): Promise<void> {
    const change = ({ feed, ...checkpoint }: ProductCheckpoint): ProductCheckpoint | undefined => {
      if (feed === undefined) return undefined;
      const { from, to, contradicted, contradiction } = feed;
      // A comparison of later ids does not cover those before them.
      const next = compared.from <= from ? Math.min(to, Math.max(from, compared.to)) : from;
      const sum = contradicted + compared.contradicted;
      const first = contradiction ?? compared.contradiction;
      return { ...checkpoint, feed: { from: next, to, contradicted: sum, contradiction: first } };
    };
    await this.change(of, change, signal);
  }

  /** Writes a new address of the records to the checkpoint. */
  async noteAddress(of: ProductGeneration, address: string, signal?: AbortSignal): Promise<void> {
    await this.change(of, (checkpoint) => ({ ...checkpoint, address }), signal);
  }

  /** Changes a checkpoint in one commit, which `guard` may bind to a lease. */
  async change(
    of: ProductGeneration,
    change: (checkpoint: ProductCheckpoint) => ProductCheckpoint | undefined,
    signal?: AbortSignal,
    guard: (changes: readonly StoreChange[]) => readonly StoreChange[] = (changes) => changes,
  ): Promise<void> {
    const name = ProductLedger.checkpointName(sourceName(of));
    for (;;) {
      const { records } = await this.#store.read([name], { signal });
      const [record] = records;
      const next = record && change(readCheckpoint(name, record.value));
      if (record === undefined || next === undefined) return;
      const one = { name, ifVersion: record.version, value: checkpointRecord(next) };
      if ((await this.#store.commit(guard([one]), { signal })) !== undefined) return;
    }
  }

  /** The raw files of a generation in order of commit, beginning after the commit `after`. */
  async entries(
    of: ProductGeneration,
    { after = 0, signal }: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): Promise<readonly RawEntry[]> {
    const source = sourceName(of);
    const commits = (await this.checkpoint(of, signal))?.harvest.commits ?? 0;
    const entries: RawEntry[] = [];
    for (let from = after + 1; from <= commits; from += namesMax) {
      const length = Math.min(namesMax, commits + 1 - from);
      const names = Array.from({ length }, (_, at) => ProductLedger.ledgerName(source, from + at));
      const { records } = await this.#store.read(names, { signal });
      for (const [at, record] of records.entries()) {
        // A commit that only added gaps has no file.
        const file = record?.value as RawFile | undefined;
        if (file !== undefined) entries.push({ ...file, ...of, commit: from + at });
      }
    }
    return entries;
  }

  #generationName(product: string): string {
    return `generation/${this.exchange}/${product}`;
  }

  async #generationRecord(
    product: string,
    signal?: AbortSignal,
  ): Promise<StoredRecord | undefined> {
    const names = [this.#generationName(product)];
    return (await this.#store.read(names, { signal })).records[0];
  }

  async #change(
    product: string,
    change: (now: Generations) => Generations,
    signal?: AbortSignal,
  ): Promise<Generations> {
    const name = this.#generationName(product);
    for (;;) {
      const record = await this.#generationRecord(product, signal);
      const before = generationsOf(record);
      const next = change(before);
      const isSame = next.current === before.current && next.building === before.building;
      if (record !== undefined && isSame) return next;
      const value: Json = { current: next.current, building: next.building ?? null };
      const changes = [{ name, ifVersion: record?.version ?? 0, value }];
      if ((await this.#store.commit(changes, { signal })) !== undefined) return next;
    }
  }
}

function replaced({ product, generation }: ProductGeneration, by: number): Error {
  const message = `${product}: generation ${by} has replaced ${generation}`;
  return ingestError('GENERATION_REPLACED', message);
}

/** Reads a checkpoint; undefined if it is damaged, as a full refresh is the remedy for that. */
function readable(name: string, record: Json): ProductCheckpoint | undefined {
  try {
    return readCheckpoint(name, record);
  } catch (error) {
    if (Object(error).code !== 'CHECKPOINT_UNREADABLE') throw error;
    return undefined;
  }
}

function generationsOf(record: StoredRecord | undefined): Generations {
  const value = record?.value as { current: number; building: number | null } | undefined;
  return { current: value?.current ?? 1, building: value?.building ?? undefined };
}

/** Parts needed to change the ledger; `Ingest` has them. */
export interface Context {
  readonly store: Store;
  readonly folder: Folder;
  readonly ledger: ProductLedger;
  /** Time by which a lease outlives its process, in milliseconds. */
  readonly leaseMs: number;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
  readonly random: Random;
}

/** Time to acquire a lease, in ms: a disk that is busy with our own files may be slow. */
const deadlineMs = 10_000;

/** Takes a lease; unless `waits` is set, rejects with `LEASE_HELD` if another process has it. */
export async function takeLease(
  { store, leaseMs: ttlMs, clock, random }: Context,
  name: string,
  signal: AbortSignal,
  waits = false,
): Promise<Lease> {
  return await Lease.acquire({ store, name, ttlMs, deadlineMs, waits, clock, random, signal });
}

/** Takes the lease for harvesting a generation. */
export async function takeProduct(
  of: ProductGeneration,
  context: Context,
  signal: AbortSignal,
): Promise<Lease> {
  return await takeLease(context, `harvest/${sourceName(of)}`, signal);
}

/**
 * Accepts the gaps of a generation, so that they are neither fetched again nor reported. It holds
 * the lease of the product meanwhile. Returns the number of gaps.
 */
export async function acceptGaps(
  of: ProductGeneration,
  context: Context,
  signal: AbortSignal,
): Promise<number> {
  await using lease = await takeProduct(of, context, signal);
  let count = 0;
  const accept = ({ harvest, accepted = [], ...rest }: ProductCheckpoint): ProductCheckpoint => {
    const gaps = harvest.gaps.map(({ from, to }) => ({ from, to }));
    count = gaps.length;
    return { ...rest, harvest: { ...harvest, gaps: [] }, accepted: [...accepted, ...gaps] };
  };
  await context.ledger.change(of, accept, lease.signal, (changes) => lease.guard(changes));
  return count;
}

/**
 * Lists raw files that crashes left: no line of the ledger names them. It holds the lease of the
 * product meanwhile, since files written under an older lease cannot be committed any more.
 */
export async function orphansOf(
  of: ProductGeneration,
  context: Context,
  signal: AbortSignal,
): Promise<readonly FolderFile[]> {
  await using lease = await takeProduct(of, context, signal);
  const named = new Set((await context.ledger.entries(of, { signal })).map(({ file }) => file));
  const files = await rawFilesOf(context.folder, of, signal);
  return files.filter(({ path, fence }) => fence < lease.fence && !named.has(path));
}
