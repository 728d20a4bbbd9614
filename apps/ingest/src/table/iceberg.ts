import { createHash } from 'node:crypto';
import { ingestError } from '../errors.ts';
import type { Folder } from '../files/folder.ts';
import { type AvroRecord, type AvroType, avroFile } from './avro.ts';
import { type IcebergTable, icebergTables, idField, parts, timeField } from './iceberg-schema.ts';
import type { Manifest, TableFile } from './manifest.ts';

/** First id of partition fields. */
const partIds = 1000;

function optional(type: AvroType): AvroType {
  return ['null', type];
}

type Member = readonly [id: number, name: string, type: AvroType];

function record(name: string, members: readonly Member[]): AvroRecord {
  const fields = members.map(([id, member, type]) => {
    const isOptional = Array.isArray(type);
    return { name: member, type, 'field-id': id, ...(isOptional ? { default: null } : {}) };
  });
  return { type: 'record', name, fields };
}

function bounds(key: number, value: number): AvroType {
  const members: readonly Member[] = [
    [key, 'key', 'int'],
    [value, 'value', 'bytes'],
  ];
  return optional({
    type: 'array',
    items: record(`k${key}_v${value}`, members),
    logicalType: 'map',
  });
}

const partition = record('r102', [
  [partIds, 'exchange', optional('string')],
  [partIds + 1, 'product', optional('string')],
  [partIds + 2, 'date', optional({ type: 'int', logicalType: 'date' })],
]);

const dataFile = record('r2', [
  [134, 'content', 'int'],
  [100, 'file_path', 'string'],
  [101, 'file_format', 'string'],
  [102, 'partition', partition],
  [103, 'record_count', 'long'],
  [104, 'file_size_in_bytes', 'long'],
  [125, 'lower_bounds', bounds(126, 127)],
  [128, 'upper_bounds', bounds(129, 130)],
]);

const manifestEntry = record('manifest_entry', [
  [0, 'status', 'int'],
  [1, 'snapshot_id', optional('long')],
  [3, 'sequence_number', optional('long')],
  [4, 'file_sequence_number', optional('long')],
  [2, 'data_file', dataFile],
]);

const manifestFile = record('manifest_file', [
  [500, 'manifest_path', 'string'],
  [501, 'manifest_length', 'long'],
  [502, 'partition_spec_id', 'int'],
  [517, 'content', 'int'],
  [515, 'sequence_number', 'long'],
  [516, 'min_sequence_number', 'long'],
  [503, 'added_snapshot_id', 'long'],
  [504, 'added_files_count', 'int'],
  [505, 'existing_files_count', 'int'],
  [506, 'deleted_files_count', 'int'],
  [512, 'added_rows_count', 'long'],
  [513, 'existing_rows_count', 'long'],
  [514, 'deleted_rows_count', 'long'],
]);

function entryOf(file: TableFile, location: string, version: number) {
  const { exchange, product, date, path, rows, bytes } = file;
  const day = Date.parse(date) / 86_400_000;
  // After 2255 a double may be a microsecond off, and readers would skip the file by its bounds.
  const isExact = Number.isSafeInteger(file.lastUs);
  const bound = (id: number, us: number) => [
    { key: idField, value: int64(id) },
    ...(isExact ? [{ key: timeField, value: int64(us) }] : []),
  ];
  return {
    status: 1,
    snapshot_id: version,
    sequence_number: null,
    file_sequence_number: null,
    data_file: {
      content: 0,
      file_path: `${location}/${path}`,
      file_format: 'PARQUET',
      partition: { exchange, product, date: day },
      record_count: rows,
      file_size_in_bytes: bytes,
      lower_bounds: bound(file.firstId, file.firstUs),
      upper_bounds: bound(file.lastId, file.lastUs),
    },
  };
}

function int64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytes;
}

function metadataFolder(name: string): string {
  return `iceberg/${name}/metadata`;
}

type NamedBytes = readonly [name: string, bytes: Buffer];

/** Each state has one new manifest with all files. */
const noOlderFiles = {
  existing_files_count: 0,
  existing_rows_count: 0,
  deleted_files_count: 0,
  deleted_rows_count: 0,
};

/** Makes the metadata files of one state: manifest, manifest list, table metadata. */
function icebergFiles(
  table: IcebergTable,
  { version, location, nowMs }: { version: number; location: string; nowMs: number },
): readonly NamedBytes[] {
  const { name, files } = table;
  const folder = `${location}/${metadataFolder(name)}`;
  const fields = table.fields.map((field) => ({ ...field }));
  const schema = { type: 'struct', 'schema-id': 0, fields };
  const spec = parts.map(([part], at) => {
    return { name: part, transform: 'identity', 'source-id': at + 1, 'field-id': partIds + at };
  });
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  const manifest = avroFile(
    manifestEntry,
    files.map((file) => entryOf(file, location, version)),
    {
      schema: JSON.stringify(schema),
      'schema-id': '0',
      'partition-spec': JSON.stringify(spec),
      'partition-spec-id': '0',
      'format-version': '2',
      content: 'data',
    },
  );
  const manifestName = `${version}-m0.avro`;
  const listName = `snap-${version}.avro`;
  const listed = {
    manifest_path: `${folder}/${manifestName}`,
    manifest_length: manifest.length,
    partition_spec_id: 0,
    content: 0,
    sequence_number: version,
    min_sequence_number: version,
    added_snapshot_id: version,
    added_files_count: files.length,
    added_rows_count: rows,
    ...noOlderFiles,
  };
  const list = avroFile(manifestFile, [listed], {
    'snapshot-id': String(version),
    'sequence-number': String(version),
    'format-version': '2',
  });
  const names = table.fields.map(({ id, name: column }) => ({ 'field-id': id, names: [column] }));
  const counts = { 'total-records': String(rows), 'total-data-files': String(files.length) };
  const metadata = {
    'format-version': 2,
    'table-uuid': uuidOf(folder),
    location: `${location}/iceberg/${name}`,
    'last-sequence-number': version,
    'last-updated-ms': nowMs,
    'last-column-id': fields.length,
    'current-schema-id': 0,
    schemas: [schema],
    'default-spec-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: spec }],
    'last-partition-id': partIds + parts.length - 1,
    'default-sort-order-id': 0,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    properties: { 'schema.name-mapping.default': JSON.stringify(names) },
    'current-snapshot-id': version,
    refs: { main: { 'snapshot-id': version, type: 'branch' } },
    snapshots: [
      {
        'snapshot-id': version,
        'sequence-number': version,
        'timestamp-ms': nowMs,
        'manifest-list': `${folder}/${listName}`,
        'schema-id': 0,
        summary: { operation: 'overwrite', ...counts },
      },
    ],
    'snapshot-log': [{ 'snapshot-id': version, 'timestamp-ms': nowMs }],
    'metadata-log': [],
  };
  return [
    [manifestName, manifest],
    [listName, list],
    [`v${version}.metadata.json`, Buffer.from(JSON.stringify(metadata))],
    // Comes last, as it makes readers use this version.
    ['version-hint.text', Buffer.from(String(version))],
  ];
}

/** Makes a UUID from a path. */
function uuidOf(place: string): string {
  const hex = createHash('sha256').update(place).digest('hex');
  // The digits at 12 and 16 are the version and the variant of a UUID.
  const digits = `${hex.slice(0, 12)}4${hex.slice(13, 16)}8${hex.slice(17, 32)}`;
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** Metadata is kept up to date while this file exists. */
const stateFile = 'iceberg/state.json';

interface State {
  /** Address of the folder, for other programs. */
  readonly location: string;
  /** Version of the table that the metadata describes. */
  readonly version: number;
}

export interface IcebergWish {
  /** Starts to keep metadata, or rewrites it. @default false */
  readonly begins?: boolean | undefined;
  /** Address of the folder, for other programs. @default the previous one, or its own */
  readonly location?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An Iceberg table that was written. */
export interface Published {
  readonly table: string;
  readonly rows: number;
  readonly files: number;
  /** Address of its metadata. */
  readonly metadata: string;
}

/**
 * Updates the metadata to a state of the table, if it is kept at all. That of the previous state
 * stays, as a reader may have just opened it; its data files may be gone.
 */
export async function publishIceberg(
  folder: Folder,
  manifest: Manifest,
  nowMs: number,
  { begins = false, location, signal }: IcebergWish = {},
): Promise<readonly Published[]> {
  const there = (await folder.list('iceberg', signal)).map(({ path }) => path);
  const isKept = there.includes(stateFile);
  const state = isKept ? stateIn(await folder.read(stateFile, signal), folder.place) : {};
  const { version } = manifest;
  if (!begins && (!isKept || state.version === version)) return [];
  const address = location ?? state.location ?? addressOf(folder.place);
  // Readers refuse fractions of a millisecond.
  const at = { version, location: address, nowMs: Math.floor(nowMs) };
  const published: Published[] = [];
  const kept = new Set([stateFile]);
  for (const table of icebergTables(manifest)) {
    const place = metadataFolder(table.name);
    for (const [name, bytes] of icebergFiles(table, at)) {
      await folder.write(`${place}/${name}`, bytes, signal);
      kept.add(`${place}/${name}`);
    }
    const rows = table.files.reduce((sum, file) => sum + file.rows, 0);
    const metadata = `${address}/${place}/v${version}.metadata.json`;
    published.push({ table: table.name, rows, files: table.files.length, metadata });
  }
  for (const path of there) {
    const isBefore = versionIn(path) === state.version && kept.has(hintBeside(path));
    if (!kept.has(path) && !isBefore) await folder.delete(path, signal);
  }
  const next: State = { location: address, version };
  await folder.write(stateFile, Buffer.from(`${JSON.stringify(next)}\n`), signal);
  return published;
}

function stateIn(bytes: Uint8Array, place: string): Partial<State> {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch (cause) {
    const what = `${place}/${stateFile}: it is no JSON; the table is as it should be`;
    throw ingestError('TABLE_CORRUPT', `${what}; delete it, then run "ingest iceberg"`, { cause });
  }
}

/** Returns `file:///…` for a directory, `s3://bucket/…` for a bucket. */
function addressOf(place: string): string {
  return URL.canParse(place) ? `s3:/${new URL(place).pathname}` : `file://${place}`;
}

function versionIn(path: string): number {
  return Number(/\/(?:v|snap-)?(\d+)(?:-m0\.avro|\.avro|\.metadata\.json)$/.exec(path)?.[1] ?? 0);
}

function hintBeside(path: string): string {
  return `${path.slice(0, path.lastIndexOf('/'))}/version-hint.text`;
}
