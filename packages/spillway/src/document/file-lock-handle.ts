import { accessSync, constants, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { nodeSqlite } from '../sqlite/node-sqlite.ts';

const sqliteBusy = 5;

/**
 * One file that at most one process can hold: an open transaction of SQLite that writes nothing,
 * so that the file stays empty and the kernel lets go of it when its holder dies. SQLite keeps
 * the threads of one process apart, which the kernel would not.
 */
export class FileLockHandle implements Disposable {
  readonly #path: string;
  #database: DatabaseSync | undefined;
  #begin: StatementSync | undefined;
  #inode: bigint | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** True when it is held now; false when somebody else holds it. Never waits. */
  tryLock(): boolean {
    try {
      if (this.#database === undefined) this.#open();
      this.#begin?.run();
    } catch (cause) {
      if (field(cause, 'errcode') === sqliteBusy) return false;
      throw this.#failure(cause);
    }
    // A lock on a file that was deleted or replaced keeps nobody out: take the new one.
    if (inodeOf(this.#path) === this.#inode) return true;
    this[Symbol.dispose]();
    return false;
  }

  unlock(): void {
    this.#database?.exec('ROLLBACK');
  }

  #open(): void {
    const { DatabaseSync } = nodeSqlite();
    const opened = new DatabaseSync(this.#path, { timeout: 0 });
    this.#database = opened;
    opened.exec('PRAGMA journal_mode = MEMORY');
    this.#begin = opened.prepare('BEGIN IMMEDIATE');
    this.#inode = inodeOf(this.#path);
  }

  #failure(cause: unknown): SpillwayError {
    this[Symbol.dispose]();
    let reason = cause;
    try {
      // SQLite only says that it cannot; the file system says why.
      accessSync(dirname(this.#path), constants.W_OK);
    } catch (denied) {
      reason = denied;
    }
    const message = `cannot lock ${this.#path}: ${String(field(reason, 'message'))}`;
    return new SpillwayError('LOCK_FAILED', message, { cause: reason });
  }

  [Symbol.dispose](): void {
    const opened = this.#database;
    this.#database = undefined;
    this.#begin = undefined;
    opened?.close();
  }
}

function inodeOf(path: string): bigint | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;
}
