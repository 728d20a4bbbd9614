import { fleetMigrations } from '../storage/migrations.ts';

/** The first line of an export. */
export interface ExportHeader {
  readonly fleet: 'export';
  readonly version: number;
  /** The number of the last migration: what the tables look like. */
  readonly schema: number;
  /** Time of writing, as an ISO date. */
  readonly time: string;
}

/** A row of a table; bytes are `{ "$base64": … }`. */
export interface ExportRow {
  readonly table: string;
  readonly row: Readonly<Record<string, unknown>>;
}

/** A piece of a file below the data folder; pieces follow each other. */
export interface ExportPiece {
  readonly file: string;
  /** Offset of these bytes in the file. */
  readonly at: number;
  readonly base64: string;
}

/** The last line: what all before it must come to. */
export interface ExportEnd {
  readonly end: true;
  readonly lines: number;
  /** Of all bytes before this line. */
  readonly sha256: string;
}

export const formatVersion = 1;
export const schemaVersion: number = fleetMigrations.length;

/** The folders of the data folder that belong to an export. */
export const fileFolders: readonly string[] = ['books', 'nets', 'pgns'];

/** A path of those folders that leads nowhere else. */
export function isFilePath(path: string): boolean {
  const [folder = '', ...names] = path.split('/');
  const isPlain = names.length > 0 && names.every((name) => /^[\w+][\w.+-]{0,254}$/.test(name));
  return fileFolders.includes(folder) && isPlain;
}

/** Tables whose rows make sense only where they are. */
export function isOwnTable(table: string): boolean {
  return !/^(spillway|sqlite)_/.test(table) && table !== 'primary_instance';
}

/** False for the address of a server, which is not true elsewhere. */
export function isOwnRow(table: string, row: Readonly<Record<string, unknown>>): boolean {
  return !(table === 'documents' && row.name === 'server_address');
}
