import { check } from 'spillway/internal';

/** A file of a folder, as a listing tells it. */
export interface FolderFile {
  /** Relative to the folder, with `/` between its parts. */
  readonly path: string;
  readonly bytes: number;
}

/** A file on this machine for as long as it is held; a copy is deleted on disposal. */
export interface HeldFile extends AsyncDisposable {
  readonly path: string;
}

/**
 * Where raw files and tables live: a directory or a bucket. All paths are relative to it. Whatever
 * is written is there whole and durable when the call resolves, or not there at all. It rejects
 * with a `SpillwayError` that names the file: `FOLDER_FULL`, `FOLDER_READ_ONLY`, `FOLDER_MISSING`,
 * `FOLDER_UNREACHABLE` or `FOLDER_FAILED`.
 */
export interface Folder extends AsyncDisposable {
  /** How it is called in messages: its path, or its address. */
  readonly place: string;
  /** Replaces the file, or makes it. */
  write(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** Makes the file unless there is one; false when there is one, which is then left as it is. */
  create(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean>;
  /** Moves a file of {@link scratch} in, in place of the one that may be there. */
  adopt(file: string, path: string, signal?: AbortSignal): Promise<void>;
  read(path: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** The file on this machine, for programs that read files only; dispose it after use. */
  hold(path: string, signal?: AbortSignal): Promise<HeldFile>;
  /** All files below a directory, by path; at most a million, without temporary ones. */
  list(under: string, signal?: AbortSignal): Promise<readonly FolderFile[]>;
  /** Deletes the file; nothing happens if there is none. */
  delete(path: string, signal?: AbortSignal): Promise<void>;
  /** A directory on this machine for files that will be adopted; gone when it is disposed. */
  readonly scratch: string;
}

/** By code points of the path, as every listing is sorted. */
export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  if (a.path === b.path) return 0;
  return a.path < b.path ? -1 : 1;
}

/** A path must not leave the folder. */
export function checkFolderPath(path: string): void {
  const parts = path.split('/');
  const isInside = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  check(isInside && !path.includes('\0'), 'path', 'relative, without . and ..', path);
}

/** Some files on this machine at once. */
export interface HeldFiles extends AsyncDisposable {
  /** In the order that was asked for. */
  readonly paths: readonly string[];
}

/** As many at once as is good for a server of files. */
const holdsAtOnce = 8;

/** Holds all of them, or none. */
export async function holdAll(
  folder: Folder,
  files: readonly { readonly file: string }[],
  signal?: AbortSignal,
): Promise<HeldFiles> {
  const held: HeldFile[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next; at < files.length; at = next) {
      next += 1;
      held[at] = await folder.hold((files[at] as { file: string }).file, signal);
    }
  };
  const discard = async (): Promise<void> => {
    await Promise.all(held.map((one) => one[Symbol.asyncDispose]()));
  };
  const workers = Array.from({ length: holdsAtOnce }, work);
  const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') {
    await discard();
    throw failed.reason;
  }
  return { paths: held.map(({ path }) => path), [Symbol.asyncDispose]: discard };
}
