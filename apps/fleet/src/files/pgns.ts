import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import type { Gate, Lane } from 'spillway';
import { check } from 'spillway/internal';
import type { Piece } from 'spillway-http';
import { fleetError } from '../errors.ts';
import { ltcFrom } from '../statistics/time-control.ts';
import type { PgnRow } from '../storage/fleet-schema.ts';
import { DraftFile, type FolderOptions } from './draft-file.ts';
import { UploadBody } from './upload-body.ts';

/** The games of one task. */
export interface StoredPgn {
  readonly taskId: number;
  readonly sha256: string;
  readonly piece: Piece;
}

/** Rows that are read at once: a run may have many tasks. */
const pageSize = 1_000;
const highWaterMark = 262_144;

const dayMs = 86_400_000;
/** Days that games are kept after a run's last result; those of deleted runs as long as LTC. */
const days = { stc: 1, ltc: 10, unfinished: 50 };

/**
 * Games that workers played, as gzip: a row for each task that has some, and a file that is named
 * by its content. A row is written when its file is on disk, and a file is removed when no row
 * names it any more, so that what a row says can be read at any time.
 */
export class Pgns {
  readonly #options: FolderOptions;

  constructor(options: FolderOptions) {
    this.#options = options;
  }

  /** A new file for games that are being received. */
  draft(): Promise<DraftFile> {
    return DraftFile.open(this.#options.folder);
  }

  /** Stores the games of a task, in place of what it had; durable when this resolves. */
  async put(task: Pick<PgnRow, 'run_id' | 'task_id'>, draft: DraftFile): Promise<void> {
    const { database, clock } = this.#options;
    const { bytes: size, sha256 } = draft;
    const row: PgnRow = { ...task, size, stored_at: clock.now(), sha256 };
    await draft.keep(this.#path(row));
    const old = await database.transaction(async (tx) => {
      const before = await tx
        .selectFrom('pgns')
        .selectAll()
        .where('run_id', '=', task.run_id)
        .where('task_id', '=', task.task_id)
        .executeTakeFirst();
      const { stored_at } = row;
      await tx
        .insertInto('pgns')
        .values(row)
        .onConflict((conflict) =>
          conflict.columns(['run_id', 'task_id']).doUpdateSet({ size, stored_at, sha256 }),
        )
        .execute();
      return before;
    });
    if (old !== undefined && old.sha256 !== sha256) await unlink(this.#path(old)).catch(() => {});
  }

  /** The games of a task, if they are there. */
  async find(runId: string, taskId: number, signal?: AbortSignal): Promise<StoredPgn | undefined> {
    const row = await this.#options.database.kysely
      .selectFrom('pgns')
      .selectAll()
      .where('run_id', '=', runId)
      .where('task_id', '=', taskId)
      .executeTakeFirst({ signal });
    if (row === undefined) return undefined;
    const isThere = await stat(this.#path(row)).then(
      ({ size }) => size === row.size,
      () => false,
    );
    return isThere ? this.#stored(row) : undefined;
  }

  /** The games of all tasks of a run, by task; the version changes whenever one of them does. */
  async ofRun(runId: string, signal?: AbortSignal) {
    const found: StoredPgn[] = [];
    const hash = createHash('sha256');
    for (;;) {
      const rows = await this.#options.database.kysely
        .selectFrom('pgns')
        .selectAll()
        .where('run_id', '=', runId)
        .where('task_id', '>', found.at(-1)?.taskId ?? -1)
        .orderBy('task_id')
        .limit(pageSize)
        .execute({ signal });
      for (const row of rows) found.push(this.#stored(row));
      hash.update(rows.map(({ sha256 }) => sha256).join(' '));
      if (rows.length < pageSize) return { pgns: found, version: hash.digest('base64url') };
    }
  }

  /** Deletes the games of a run. */
  async remove(runId: string): Promise<void> {
    const { database, folder } = this.#options;
    const gone = database.kysely.deleteFrom('pgns').where('run_id', '=', runId).returningAll();
    for (const row of await gone.execute()) await unlink(this.#path(row)).catch(() => {});
    // It is not empty if more games have just come.
    await rmdir(join(folder, runId)).catch(() => {});
  }

  /** Deletes games of runs that ended long enough ago; gives the ids of these runs. */
  async prune(): Promise<string[]> {
    const { database, clock } = this.#options;
    const before = (days: number) => clock.now() - days * dayMs;
    const rows = await database.kysely
      .selectFrom('runs')
      .select('id')
      .where(({ exists, selectFrom }) =>
        exists(selectFrom('pgns').select('task_id').whereRef('pgns.run_id', '=', 'runs.id')),
      )
      .where(({ eb, or, and }) =>
        or([
          and([
            eb('finished', '=', 1),
            eb('deleted', '=', 0),
            eb('tc_base', '<', ltcFrom),
            eb('last_updated', '<', before(days.stc)),
          ]),
          and([eb('finished', '=', 1), eb('last_updated', '<', before(days.ltc))]),
          eb('last_updated', '<', before(days.unfinished)),
        ]),
      )
      .limit(pageSize)
      .execute();
    for (const { id } of rows) await this.remove(id);
    return rows.map(({ id }) => id);
  }

  #stored(row: PgnRow): StoredPgn {
    const path = this.#path(row);
    const piece: Piece = {
      size: row.size,
      open: (start, end) => createReadStream(path, { start, end: end - 1, highWaterMark }),
    };
    return { taskId: row.task_id, sha256: row.sha256, piece };
  }

  #path({ run_id, task_id, sha256 }: Pick<PgnRow, 'run_id' | 'task_id' | 'sha256'>): string {
    return join(this.#options.folder, run_id, `${task_id}-${sha256.slice(0, 16)}.pgn.gz`);
  }
}

/**
 * Checks that a file is whole gzip from its first byte to its last, so that it can stand between
 * others; throws `REQUEST_REFUSED` or `REQUEST_TOO_LARGE`. The unpacked text is not kept.
 */
async function checkGzip(
  { path, bytes }: DraftFile,
  textBytesMax: number,
  signal: AbortSignal,
): Promise<void> {
  const gunzip = createGunzip({ chunkSize: 262_144 });
  let textBytes = 0;
  const count = async (text: AsyncIterable<Buffer>) => {
    for await (const chunk of text) {
      textBytes += chunk.length;
      if (textBytes > textBytesMax) {
        throw fleetError('REQUEST_TOO_LARGE', `more than ${textBytesMax} bytes of games`);
      }
    }
  };
  const file = createReadStream(path, { highWaterMark });
  try {
    await pipeline(file, gunzip, count, { signal });
  } catch (error) {
    if (!String(Object(error).code).startsWith('Z_')) throw error;
    throw fleetError('REQUEST_REFUSED', 'pgn is not gzip', { cause: error });
  }
  // Zeros after the last member are no error of the decoder, but would end a file of many.
  if (bytes === 0 || gunzip.bytesWritten !== bytes) {
    throw fleetError('REQUEST_REFUSED', 'pgn is not gzip');
  }
}

export interface ReceivePgnOptions {
  readonly games: Pgns;
  /** Bounds how many files are decompressed at once: each takes a core. */
  readonly checks: Gate;
  /** The longest body, in bytes. */
  readonly bodyBytesMax: number;
  /** The most that may come out of the gzip, in bytes. */
  readonly textBytesMax: number;
  /**
   * Authenticates the sender by the fields in front of the games. False if they do not name one;
   * throws if the password is wrong.
   */
  readonly authenticate: (fields: unknown, signal: AbortSignal) => Promise<boolean>;
  /** Bounds how many uploads at once have their games in front of the password. */
  readonly strangers: Lane;
  /** The most games, in bytes, that such an upload may have. */
  readonly strangerBytesMax: number;
  /**
   * Makes all other checks of a request, whose `pgn` is empty if the body has one. Throws, or gives
   * the task that the games belong to.
   */
  readonly admit: (
    body: unknown,
    signal: AbortSignal,
  ) => Promise<{ readonly run_id: string; readonly task_id: number }>;
}

/**
 * Takes the games of a task, in constant memory; they are durable when this resolves. The route
 * must leave its body unread, as `uploads` does.
 *
 * Senders that are not authenticated fill at most `strangers` times `strangerBytesMax` of the disk.
 * Official workers send the password first, so none of these limits applies to them.
 */
export async function receivePgn(
  request: FastifyRequest,
  options: ReceivePgnOptions,
  signal: AbortSignal,
): Promise<void> {
  const { games, textBytesMax, admit } = options;
  const { body } = request;
  check(body instanceof Readable, 'body', 'unparsed: register `uploads` in its scope', body);
  // Declared before the draft, so that the place is given back after the draft was removed.
  using place = new DisposableStack();
  await using draft = await games.draft();
  const upload = new UploadBody();
  /** Gives the most bytes of games that the sender may store. */
  const gamesBytesMax = async () => {
    if (await options.authenticate(upload.before, signal)) return Infinity;
    place.use(await options.strangers.enter({ signal }));
    return options.strangerBytesMax;
  };
  await drain(body, upload, { draft, gamesBytesMax, bytesMax: options.bodyBytesMax }, signal);
  const task = await admit(upload.end(), signal);
  if (upload.gamesFault !== undefined) throw fleetError('REQUEST_REFUSED', upload.gamesFault);
  using _permit = await options.checks.enter({ signal });
  await checkGzip(draft, textBytesMax, signal);
  await games.put(task, draft);
}

interface DrainOptions {
  readonly draft: DraftFile;
  /** The longest body, in bytes. */
  readonly bytesMax: number;
  /** The most games, in bytes; called when they begin, before any is stored. */
  readonly gamesBytesMax: () => Promise<number>;
}

async function drain(
  body: Readable,
  upload: UploadBody,
  { draft, bytesMax, gamesBytesMax }: DrainOptions,
  signal: AbortSignal,
): Promise<void> {
  // Not destroyed when this fails: that would cut the connection before the answer.
  const chunks = body.iterator({ destroyOnReturn: false });
  let bytes = 0;
  let draftBytesMax: number | undefined;
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    bytes += chunk.length;
    if (bytes > bytesMax) {
      throw fleetError('REQUEST_TOO_LARGE', `the body may have ${bytesMax} bytes at most`);
    }
    const found = upload.take(chunk);
    if (upload.before !== undefined) draftBytesMax ??= await gamesBytesMax();
    for (const games of found) {
      if (draft.bytes + games.length > (draftBytesMax ?? 0)) {
        const why = `more than ${draftBytesMax} bytes of games in front of the password`;
        throw fleetError('REQUEST_TOO_LARGE', `${why}: send it first`);
      }
      await draft.write(games);
    }
  }
}
