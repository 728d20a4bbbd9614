import { open, readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { exportTables, type MovedTables } from 'spillway-sql';
import { fleetMigrations } from '../storage/migrations.ts';

/** All tables but `primary_instance`, which is valid only in its own database. */
export const fleetTables: MovedTables = {
  program: 'fleet',
  migrations: fleetMigrations,
  isMoved: (table) => table !== 'primary_instance',
};

export interface ExportOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** The folder that holds games, nets and books. */
  readonly data: string;
  /** True if files are written too. */
  readonly files: boolean;
  /** Called for a file that a server removed after it was listed; it is left out. */
  readonly onGone: (file: string) => void;
}

const pieceBytes = 262_144;
/** The folders of the data folder that belong to an export. */
const fileFolders: readonly string[] = ['books', 'nets', 'pgns'];

/** A snapshot of the database, then files, line by line in constant memory. */
export function exportFleet(options: ExportOptions): AsyncGenerator<string> {
  const others = options.files ? pieces(options) : undefined;
  return exportTables({ url: options.database, tables: fleetTables, others });
}

/** True for a path inside these folders. */
export function isFilePath(path: string): boolean {
  const [folder = '', ...names] = path.split('/');
  const isPlain = names.length > 0 && names.every((name) => /^[\w+][\w.+-]{0,254}$/.test(name));
  return fileFolders.includes(folder) && isPlain;
}

async function* pieces({ data, onGone }: ExportOptions) {
  for (const folder of fileFolders) {
    const found = await readdir(join(data, folder), {
      recursive: true,
      withFileTypes: true,
    }).catch(() => []);
    for (const entry of found.filter((one) => one.isFile())) {
      const path = join(entry.parentPath, entry.name);
      const file = relative(data, path).split(sep).join('/');
      // Names that begin with a dot belong to incomplete files.
      if (isFilePath(file)) yield* piecesOf(path, file, onGone);
    }
  }
}

/** The pieces of a file below the data folder, each with its offset; they follow each other. */
async function* piecesOf(path: string, file: string, onGone: ExportOptions['onGone']) {
  const opened = await open(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    onGone(file);
  });
  if (opened === undefined) return;
  await using handle = opened;
  let at = 0;
  for await (const chunk of handle.createReadStream({ highWaterMark: pieceBytes })) {
    yield { file, at, base64: (chunk as Buffer).toString('base64') };
    at += (chunk as Buffer).length;
  }
}
