import { accessSync, constants, mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { nodeSqlite } from '../sqlite/node-sqlite.ts';

const sqliteBusy = 5;

/**
 * One file that at most one process can hold: an open transaction of SQLite that writes nothing,
 * so that the file stays empty and the kernel frees it when its holder dies. SQLite keeps the
 * threads of one process apart, which the kernel would not.
 */
export class FileLockHandle implements Disposable {
  readonly #path: string;
  #database: DatabaseSync | undefined;
  #begin: StatementSync | undefined;
  #inode: bigint | undefined;
  /** True if `/proc/locks` has shown this lock; undefined until it was held once. */
  #isListed: boolean | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Takes the lock if it is free, without waiting; false if another holder has it. */
  tryLock(): boolean {
    try {
      if (this.#database === undefined) this.#open();
      this.#begin?.run();
    } catch (cause) {
      if (field(cause, 'errcode') === sqliteBusy) return false;
      throw this.#failure(cause);
    }
    // A lock on a file that was deleted or replaced excludes nobody: take the new file's.
    if (inodeOf(this.#path) === this.#inode) {
      this.#isListed ??= isListed(this.#inode);
      return true;
    }
    this[Symbol.dispose]();
    return false;
  }

  unlock(): void {
    this.#database?.exec('ROLLBACK');
  }

  /**
   * Gives the reason if the lock was taken and then lost. The kernel drops it as soon as any
   * code of this process closes any descriptor of the file. Linux shows that in `/proc/locks`;
   * elsewhere only a file that was deleted or replaced is noticed.
   */
  findLoss(): string | undefined {
    if (inodeOf(this.#path) !== this.#inode) return 'its file was deleted or replaced';
    const isGone = this.#isListed === true && !isListed(this.#inode);
    return isGone ? 'code of this process has opened and closed its file' : undefined;
  }

  #open(): void {
    const { DatabaseSync } = nodeSqlite();
    const folder = dirname(this.#path);
    // Its parent must exist: a lock in a folder that was made by mistake would exclude nobody.
    if (statSync(dirname(folder)).isDirectory()) mkdirSync(folder, { recursive: true });
    const opened = new DatabaseSync(this.#path, { timeout: 0 });
    this.#database = opened;
    opened.exec('PRAGMA journal_mode = MEMORY');
    this.#begin = opened.prepare('BEGIN IMMEDIATE');
    this.#inode = inodeOf(this.#path);
    this.#isListed = undefined;
  }

  #failure(cause: unknown): SpillwayError {
    this[Symbol.dispose]();
    let reason = cause;
    try {
      // The error of SQLite gives no reason; that of the file system does.
      accessSync(dirname(this.#path), constants.W_OK);
    } catch (denied) {
      reason = field(cause, 'syscall') === undefined ? denied : cause;
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

/** True if the kernel lists a lock of this process on the file. */
function isListed(inode: bigint | undefined): boolean {
  try {
    const lock = new RegExp(`POSIX +ADVISORY +WRITE +${process.pid} \\S+:${inode} `);
    return lock.test(readFileSync('/proc/locks', 'utf8'));
  } catch {
    return false;
  }
}
