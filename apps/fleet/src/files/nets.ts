import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { BoundedMap, Lane, SingleFlight } from 'spillway';
import { type Download, fileDownload } from 'spillway-http';
import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';
import type { NetRow } from '../storage/fleet-schema.ts';
import { actionRow } from '../storage/rows.ts';
import { systemUser } from '../world/records.ts';
import { DraftFile, type FolderOptions } from './draft-file.ts';

/** A net by its name and its content, which fit. */
export interface Net {
  readonly name: string;
  readonly sha256: string;
}

/** The largest net that is accepted, in bytes. */
export const netBytesMax = 200_000_000;
/** Nets that are remembered as checked. */
const checkedMax = 10_000;

/** Engine networks, named by the first 12 digits of their SHA-256; people may add files by hand. */
export class Nets {
  readonly #options: FolderOptions;
  /** Checked versions of files, with their digests; the least recently used is forgotten first. */
  readonly #checked = new BoundedMap<string, { readonly version: string; sha256: string }>({
    countMax: checkedMax,
  });
  readonly #running = new SingleFlight<string>();
  readonly #lane: Lane;

  constructor(options: FolderOptions) {
    this.#options = options;
    const limits = { limit: { fixed: 2 }, queueMax: 100, deadlineMs: 60_000 };
    this.#lane = new Lane({ name: 'net-check', ...limits, clock: options.clock });
  }

  /** Copies a file here, under the name that its content gives it; throws `REQUEST_REFUSED`. */
  async add(path: string, user: string): Promise<Net> {
    const name = basename(path);
    const wanted = patterns.netName.test(name) ? name : undefined;
    await using file = await open(path);
    return await this.receive(file.createReadStream(), { user, name: wanted });
  }

  /** Stores a net that arrives in pieces; durable when this resolves. */
  async receive(
    chunks: AsyncIterable<Uint8Array>,
    { user, name }: { readonly user: string; readonly name?: string | undefined },
  ): Promise<Net> {
    await using draft = await DraftFile.open(this.#options.folder);
    for await (const chunk of chunks) {
      await draft.write(chunk);
      if (draft.bytes > netBytesMax) {
        throw fleetError('REQUEST_TOO_LARGE', `a net has at most ${netBytesMax} bytes`);
      }
    }
    const net = { name: nameOf(draft.sha256), sha256: draft.sha256 };
    if (draft.bytes === 0) throw fleetError('REQUEST_REFUSED', 'the net is empty');
    if (name !== undefined && name !== net.name) {
      throw fleetError('REQUEST_REFUSED', `${name} should be called ${net.name}`);
    }
    await draft.keep(join(this.#options.folder, net.name));
    await this.#list(net.name, user);
    return net;
  }

  /** True if the net is here and its content matches its name. */
  async has(name: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.find(name, signal)) !== undefined;
  }

  /** The net for `download`; undefined for a file whose digest does not match its name. */
  async find(name: string, signal?: AbortSignal): Promise<Download | undefined> {
    if (!patterns.netName.test(name)) return undefined;
    const file = await fileDownload(this.#options.folder, name).catch(ifMissing);
    if (file === undefined) return undefined;
    const sha256 = await this.#digest(name, file.version as string, signal);
    if (nameOf(sha256) !== name) return undefined;
    return { ...file, version: sha256, type: 'application/octet-stream' };
  }

  /** Counts a download; a file that was put here by hand is listed with its first one. */
  async count(name: string): Promise<void> {
    await this.#options.database.kysely
      .insertInto('nns')
      .values({ ...newNet(name, systemUser), downloads: 1 })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet((row) => ({
          downloads: row('nns.downloads', '+', 1),
        })),
      )
      .execute();
  }

  list(): Promise<NetRow[]> {
    return this.#options.database.kysely.selectFrom('nns').selectAll().orderBy('name').execute();
  }

  /** Notes that a run uses the net; `date` is in UNIX milliseconds. */
  async noteTest(
    name: string,
    { id, date }: { readonly id: string; readonly date: number },
  ): Promise<void> {
    await this.#options.database.kysely
      .updateTable('nns')
      .set(({ fn, val }) => ({
        first_date: fn.coalesce('first_date', val(date)),
        first_id: fn.coalesce('first_id', val(id)),
        last_date: date,
        last_id: id,
      }))
      .where('name', '=', name)
      .execute();
  }

  async #list(name: string, user: string): Promise<void> {
    const { database, clock } = this.#options;
    await database.transaction(async (tx) => {
      const { numInsertedOrUpdatedRows: added } = await tx
        .insertInto('nns')
        .values(newNet(name, user))
        .onConflict((conflict) => conflict.column('name').doNothing())
        .executeTakeFirstOrThrow();
      if (!added) return;
      const time = clock.now() / 1000;
      const entry = actionRow({ time, action: 'upload_nn', username: user, nn: name });
      await tx.insertInto('actions').values(entry).execute();
    });
  }

  /** Hashed once for each version of the file, however many ask for it. */
  async #digest(name: string, version: string, signal?: AbortSignal): Promise<string> {
    const known = this.#checked.get(name);
    if (known?.version === version) return known.sha256;
    const key = `${name} ${version}`;
    const sha256 = await this.#running.run(key, () => this.#hash(name), { signal });
    this.#checked.set(name, { version, sha256 });
    return sha256;
  }

  #hash(name: string): Promise<string> {
    const path = join(this.#options.folder, name);
    return this.#lane.run(async (signal) => {
      const hash = createHash('sha256');
      for await (const chunk of createReadStream(path, { highWaterMark: 262_144, signal })) {
        hash.update(chunk);
      }
      return hash.digest('hex');
    });
  }
}

function nameOf(sha256: string): string {
  return `nn-${sha256.slice(0, 12)}.nnue`;
}

function newNet(name: string, user: string): NetRow {
  const tests = { first_date: null, first_id: null, last_date: null, last_id: null };
  return { name, user, downloads: 0, is_master: 0, ...tests };
}

function ifMissing(error: unknown): undefined {
  if (Object(error).code !== 'NOT_FOUND') throw error;
}
