import { createHash } from 'node:crypto';
import type { Folder } from '../files/folder.ts';
import { type AvroRecord, type AvroType, avroFile } from './avro.ts';
import { type DecimalTypes, usual } from './engine.ts';
import { areRecords, type Manifest, type MergedProduct, type TableFile } from './manifest.ts';
import type { RecordType, RecordTypes } from './records.ts';
import { viewName } from './view.ts';

/** One column of an Iceberg table. */
interface Field {
  readonly id: number;
  readonly name: string;
  readonly required: boolean;
  readonly type: string;
}

/** One table of Apache Iceberg: products whose columns can be read together. */
interface IcebergTable {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly files: readonly TableFile[];
}

const parts: readonly (readonly [name: string, type: string])[] = [
  ['exchange', 'string'],
  ['product', 'string'],
  ['date', 'date'],
];
const idField = 4;
const timeField = 5;
/** Ids of partition fields begin there. */
const partIds = 1000;

/**
 * The tables of a state: `trades`, and one for each declared source. Iceberg cannot change the
 * scale of a decimal or a number to text, so a product whose columns are of other types than those
 * of its table is one of its own: `trades_coinbase_SHIB_USD`.
 */
function icebergTables({ products, files }: Manifest): readonly IcebergTable[] {
  const tables = new Map<string, { fields: Map<string, Field>; files: TableFile[] }>();
  for (const one of products) {
    const own = files.filter((file) => {
      return file.exchange === one.exchange && file.product === one.product;
    });
    if (own.length === 0) continue;
    const common = areRecords(one.types) ? viewName(one.exchange) : 'trades';
    const columns = columnsOf(one);
    const isAlike =
      areRecords(one.types) || [one.types.price, one.types.quantity].every(isUsualScale);
    const known = tables.get(common)?.fields;
    const fits = isAlike && columns.every(([name, type]) => joined(known?.get(name), type));
    const name = fits ? common : `${common}_${one.exchange}_${one.product}`.replace(/\W/g, '_');
    const table = tables.get(name) ?? { fields: new Map<string, Field>(), files: [] };
    for (const [column, type] of [...parts, ...columns]) {
      const id = table.fields.get(column)?.id ?? table.fields.size + 1;
      const required = id <= parts.length;
      const wider = joined(table.fields.get(column), type) ?? type;
      table.fields.set(column, { id, name: column, required, type: wider });
    }
    table.files.push(...own);
    tables.set(name, table);
  }
  return [...tables].map(([name, { fields, files: own }]) => {
    return { name, fields: [...fields.values()], files: own };
  });
}

function isUsualScale({ scale }: DecimalTypes['price']): boolean {
  return scale === usual.scale;
}

/** The type that holds both, if Iceberg may widen one to the other: decimals of the same scale. */
function joined(known: Field | undefined, type: string): string | undefined {
  if (known === undefined || known.type === type) return type;
  const [before, after] = [known.type, type].map((one) => /^decimal\((\d+), (\d+)\)$/.exec(one));
  if (!before || !after || before[2] !== after[2]) return undefined;
  return Number(before[1]) > Number(after[1]) ? known.type : type;
}

function columnsOf({ types }: MergedProduct): readonly (readonly [name: string, type: string])[] {
  if (areRecords(types)) return recordColumns(types);
  const decimal = (of: 'price' | 'quantity') => `decimal(${types[of].width}, ${types[of].scale})`;
  return [
    ['trade_id', 'long'],
    ['trade_ts', 'timestamptz'],
    ['price', decimal('price')],
    ['quantity', decimal('quantity')],
    ['maker_side', 'string'],
    ['taker_side', 'string'],
  ];
}

function recordColumns({ columns }: RecordTypes): readonly (readonly [string, string])[] {
  const own = columns.map(({ name, type }) => [name, icebergType(type)] as const);
  return [['_seq', 'long'], ['_time', 'timestamptz'], ...own];
}

const types: Readonly<Record<string, string>> = {
  BOOLEAN: 'boolean',
  BIGINT: 'long',
  DOUBLE: 'double',
  DATE: 'date',
  TIMESTAMPTZ: 'timestamptz',
  JSON: 'string',
  VARCHAR: 'string',
};

function icebergType(type: RecordType): string {
  const [width, scale] = type.match(/\d+/g) ?? [];
  return types[type] ?? `decimal(${width}, ${scale})`;
}

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
  const bound = (id: number, us: number) => [
    { key: idField, value: int64(id) },
    { key: timeField, value: int64(us) },
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

/** Path of a table's metadata in the folder. */
function metadataFolder(name: string): string {
  return `iceberg/${name}/metadata`;
}

/** Name of a file of the metadata, and its bytes. */
type NamedBytes = readonly [name: string, bytes: Buffer];

/** Each state has one manifest with all files, so none are taken over from others. */
const noOlderFiles = {
  existing_files_count: 0,
  existing_rows_count: 0,
  deleted_files_count: 0,
  deleted_rows_count: 0,
};

/** All files of the metadata of one state: manifest, manifest list, table metadata. */
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
    // Last: from then on readers look at this version.
    ['version-hint.text', Buffer.from(String(version))],
  ];
}

/** A UUID, the same for the same place. */
function uuidOf(place: string): string {
  const hex = createHash('sha256').update(place).digest('hex');
  // The digits at 12 and 16 tell the version and the variant of a UUID.
  const digits = `${hex.slice(0, 12)}4${hex.slice(13, 16)}8${hex.slice(17, 32)}`;
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** Metadata is kept up to date if this file is there. */
const stateFile = 'iceberg/state.json';

interface State {
  /** Address of the folder for other programs. */
  readonly location: string;
  /** Version of the table that all metadata is of. */
  readonly version: number;
}

export interface IcebergWish {
  /** Begins to keep metadata, or writes it anew. @default false */
  readonly begins?: boolean | undefined;
  /** Address of the folder for other programs. @default the one before, or else its own */
  readonly location?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One table of Iceberg as it was written. */
export interface Published {
  readonly table: string;
  readonly rows: number;
  readonly files: number;
  /** Address of its metadata. */
  readonly metadata: string;
}

/**
 * Brings the metadata to a state of the table, if it is kept at all. The metadata of the state
 * before stays, as a reader may be about to read it; its data files may be gone.
 */
export async function publishIceberg(
  folder: Folder,
  manifest: Manifest,
  nowMs: number,
  { begins = false, location, signal }: IcebergWish = {},
): Promise<readonly Published[]> {
  const there = (await folder.list('iceberg', signal)).map(({ path }) => path);
  const isKept = there.includes(stateFile);
  const text = isKept ? Buffer.from(await folder.read(stateFile, signal)).toString() : '{}';
  const state: Partial<State> = JSON.parse(text);
  const { version } = manifest;
  if (!begins && (!isKept || state.version === version)) return [];
  const address = location ?? state.location ?? addressOf(folder.place);
  const published: Published[] = [];
  const kept = new Set([stateFile]);
  for (const table of icebergTables(manifest)) {
    const at = metadataFolder(table.name);
    for (const [name, bytes] of icebergFiles(table, { version, location: address, nowMs })) {
      await folder.write(`${at}/${name}`, bytes, signal);
      kept.add(`${at}/${name}`);
    }
    const rows = table.files.reduce((sum, file) => sum + file.rows, 0);
    const metadata = `${address}/${at}/v${version}.metadata.json`;
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

/** `file:///…` for a directory, `s3://bucket/…` for a bucket. */
function addressOf(place: string): string {
  return URL.canParse(place) ? `s3:/${new URL(place).pathname}` : `file://${place}`;
}

function versionIn(path: string): number {
  return Number(/\/(?:v|snap-)?(\d+)(?:-m0\.avro|\.avro|\.metadata\.json)$/.exec(path)?.[1] ?? 0);
}

function hintBeside(path: string): string {
  return `${path.slice(0, path.lastIndexOf('/'))}/version-hint.text`;
}
