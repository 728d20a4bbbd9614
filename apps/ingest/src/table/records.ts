import { ingestError } from '../errors.ts';
import { type Engine, quoted, type Row } from './engine.ts';

/** Column types of records; decimals only if declared. */
export type RecordType =
  | 'BOOLEAN'
  | 'BIGINT'
  | 'DOUBLE'
  | 'DATE'
  | 'TIMESTAMPTZ'
  | 'JSON'
  | 'VARCHAR'
  | `DECIMAL(${number},${number})`;

/** A column of the table, made of one field of the records. */
export interface RecordColumn {
  readonly name: string;
  readonly field: string;
  readonly type: RecordType;
  /** Earlier types, which did not hold a later value. @default none */
  readonly was?: readonly RecordType[] | undefined;
}

/** Columns of the records of one product, as the manifest keeps them. */
export interface RecordTypes {
  /** Fields that identify a record; none if its number does. */
  readonly key: readonly string[];
  readonly columns: readonly RecordColumn[];
}

/** Schema of a declared source: its key, and the types that were declared. */
export interface RecordSchema {
  readonly key: readonly string[];
  readonly declared: Readonly<Record<string, RecordType>>;
}

/** A change of a column's type, and the value that required it. */
export interface TypeChange {
  readonly column: string;
  readonly from: RecordType;
  readonly to: RecordType;
  readonly value: string;
}

/** Largest number of columns, and so of different fields of a product. */
export const columnsMax: number = 1_000;
/** Largest record in bytes of JSON; DuckDB needs twice as much memory per thread. */
export const recordBytesMax: number = 4 * 2 ** 20;
/** Reserved names: number and time of a record, and the parts of its path. */
const taken = ['_seq', '_time', 'exchange', 'product', 'date'];

/** Types in the order in which they are tried for a new column; text fits everything. */
const candidates: readonly RecordType[] = [
  'BOOLEAN',
  'BIGINT',
  'DOUBLE',
  'DATE',
  'TIMESTAMPTZ',
  'JSON',
  'VARCHAR',
];

/** Makes the condition that a column type holds a value exactly, by its JSON type and text. */
function holds(column: RecordType, type = 'type', text = 'text'): string {
  const isText = (pattern: string): string => `regexp_full_match(${text}, '${pattern}')`;
  const day = '[0-9]{4}-[0-9]{2}-[0-9]{2}';
  const time = '[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})';
  switch (column) {
    case 'BOOLEAN':
      return `${type} = 'BOOLEAN'`;
    case 'BIGINT':
      // Only integers that fit a double, so that the column can become DOUBLE later.
      return `${type} IN ('UBIGINT', 'BIGINT')
        AND abs(TRY_CAST(${text} AS HUGEINT)) <= 9007199254740992`;
    case 'DOUBLE':
      // Numbers that do not fit a double are texts already.
      return `${type} IN ('DOUBLE', 'UBIGINT', 'BIGINT')`;
    case 'DATE':
      return `${type} = 'VARCHAR' AND ${isText(day)} AND TRY_CAST(${text} AS DATE) IS NOT NULL`;
    case 'TIMESTAMPTZ':
      return `${type} = 'VARCHAR' AND ${isText(day + time)}
        AND TRY_CAST(${text} AS TIMESTAMPTZ) IS NOT NULL`;
    case 'JSON':
      return `${type} IN ('OBJECT', 'ARRAY')`;
    case 'VARCHAR':
      return 'true';
    default: {
      const [width = 0, scale = 0] = (column.match(/\d+/g) ?? []).map(Number);
      const fraction = scale > 0 ? `([.][0-9]{1,${scale}}0*)?` : '';
      return isText(`-?[0-9]{1,${Math.max(1, width - scale)}}${fraction}`);
    }
  }
}

function linesOf(paths: readonly string[]): string {
  return `read_json([${paths.map(quoted).join()}], format = 'newline_delimited',
    columns = {seq: 'BIGINT', us: 'BIGINT', record: 'MAP(VARCHAR, JSON)'}, compression = 'zstd',
    maximum_object_size = ${recordBytesMax + 1_024})`;
}

/**
 * Selects every value of every record that is not null: `field`, `type`, `text`, `place`. The
 * reader splits records into maps, as JSON functions hold a whole record for each field (2026-11).
 */
function valuesOf(paths: readonly string[]): string {
  const fields = `SELECT unnest(map_keys(record)) AS field, unnest(map_values(record)) AS value,
    generate_subscripts(map_keys(record), 1) AS place FROM ${linesOf(paths)}`;
  return `(SELECT field, place, json_type(value) AS type, value ->> '$' AS text
    FROM (${fields}) WHERE type <> 'NULL')`;
}

/** Finds columns that hold the records of these raw files and all earlier ones. */
export async function columnsFor(
  engine: Pick<Engine, 'rows'>,
  paths: readonly string[],
  before: RecordTypes,
  signal?: AbortSignal,
): Promise<{ readonly types: RecordTypes; readonly changes: readonly TypeChange[] }> {
  const known = new Map(before.columns.map((column) => [column.field, column]));
  const tried = [...new Set([...before.columns.map(({ type }) => type), ...candidates])];
  const fits = tried.map((type, at) => `bool_and(${holds(type)}) AS fits${at}`);
  const found = await engine.rows(
    `SELECT field, min(place) AS place, ${fits.join()} FROM ${valuesOf(paths)}
      GROUP BY field ORDER BY place, field`,
    signal,
  );
  const isHeld = (row: Row, type: RecordType): boolean =>
    row[`fits${tried.indexOf(type)}`] === true;
  const columns = [...before.columns];
  const changes: TypeChange[] = [];
  const names = new Set([...taken, ...columns.map(({ name }) => name.toLowerCase())]);
  for (const row of found) {
    const field = String(row.field);
    const column = known.get(field);
    if (column !== undefined && isHeld(row, column.type)) continue;
    const type =
      candidates.find((one) => isHeld(row, one) && isWider(one, column?.type)) ?? 'VARCHAR';
    if (column === undefined) {
      columns.push({ name: nameFor(field, names), field, type });
      continue;
    }
    const { name, type: from, was = [] } = column;
    columns[columns.indexOf(column)] = { name, field, type, was: [...was, from] };
    const value = await misfit(engine, paths, column, signal);
    changes.push({ column: name, from, to: type, value });
  }
  if (columns.length > columnsMax) {
    const what = `more than ${columnsMax} fields in its records, such as ${columns.at(-1)?.field}`;
    throw ingestError('TABLE_FAILED', `${what}: what was fetched is kept, but in no table`);
  }
  return { types: { key: before.key, columns }, changes };
}

/** True if the first type holds all values of the second: text, or DOUBLE after BIGINT. */
function isWider(type: RecordType, than: RecordType | undefined): boolean {
  return than === undefined || type === 'VARCHAR' || (type === 'DOUBLE' && than === 'BIGINT');
}

async function misfit(
  engine: Pick<Engine, 'rows'>,
  paths: readonly string[],
  { field, type }: RecordColumn,
  signal?: AbortSignal,
): Promise<string> {
  const [row] = await engine.rows(
    `SELECT text FROM ${valuesOf(paths)} WHERE field = ${quoted(field)} AND NOT (${holds(type)})
      LIMIT 1`,
    signal,
  );
  return String(row?.text).slice(0, 80);
}

/** Makes a unique column name; SQL names are not case-sensitive. */
function nameFor(field: string, names: Set<string>): string {
  let name = field === '' ? '_' : field.replaceAll('\0', '_');
  while (names.has(name.toLowerCase())) name += '_';
  names.add(name.toLowerCase());
  return name;
}

/** Returns the columns of a product before its first record. */
export function firstTypes({ key, declared }: RecordSchema): RecordTypes {
  const names = new Set(taken);
  const columns = Object.entries(declared).map(([field, type]): RecordColumn => {
    return { name: nameFor(field, names), field, type };
  });
  return { key, columns };
}

/** Quotes a name for SQL. */
export function named(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Selects rows of the table from raw lines. */
export function recordsSql(paths: readonly string[], { columns }: RecordTypes): string {
  const values = columns.map(({ name, field, type, was = [] }) => {
    const value = `record[${quoted(field)}]`;
    const text = `(${value} ->> '$')`;
    const before = was.at(-1);
    if (before === undefined || type !== 'VARCHAR') {
      return `CAST(${text} AS ${storedAs(type)}) AS ${named(name)}`;
    }
    // Formatted like values of files with the old type: else keys would not match them.
    const isHeld = holds(before, `json_type(${value})`, text);
    const same = `CAST(TRY_CAST(${text} AS ${storedAs(before)}) AS VARCHAR)`;
    return `CASE WHEN ${isHeld} THEN ${same} ELSE ${text} END AS ${named(name)}`;
  });
  const own = ['seq AS _seq', 'make_timestamptz(us) AS _time'];
  return `SELECT ${[...own, ...values].join()} FROM ${linesOf(paths)}`;
}

/** Returns the type in Parquet: JSON is stored as text, which every tool reads. */
function storedAs(type: RecordType): string {
  return type === 'JSON' ? 'VARCHAR' : type;
}

/** Selects rows of files that may lack columns, or have them in narrower types. */
export function recordFilesSql(paths: readonly string[], { columns }: RecordTypes): string {
  const all = columns.map(({ name, type }) => `NULL::${storedAs(type)} AS ${named(name)}`);
  const empty = ['NULL::BIGINT AS _seq', 'NULL::TIMESTAMPTZ AS _time', ...all].join();
  const cast = columns.map(({ name, type }) => {
    return `CAST(${named(name)} AS ${storedAs(type)}) AS ${named(name)}`;
  });
  return `SELECT ${['_seq', '_time', ...cast].join()} FROM (SELECT * FROM
    read_parquet([${paths.map(quoted).join()}], hive_partitioning = false, union_by_name = true)
    UNION ALL BY NAME SELECT ${empty} WHERE false)`;
}

/** Estimates the bytes of a row in memory. */
export function widthSql({ columns }: RecordTypes): string {
  const texts = columns.filter(({ type }) => storedAs(type) === 'VARCHAR');
  const lengths = texts.map(({ name }) => `coalesce(strlen(${named(name)}), 0)`);
  return [16 * (columns.length + 2), ...lengths].join(' + ');
}

/** Returns the columns of the key, quoted. */
export function keySql({ key, columns }: RecordTypes): readonly string[] {
  return key.map((field) => named(columns.find((one) => one.field === field)?.name ?? field));
}

/** Longer keys get no bounds in the manifest, which has to stay small. */
const keyLengthMax = 200;

/** Selects the lowest and highest value of the key's first field, for the manifest. */
export function keyExtentSql(types: RecordTypes): string {
  const [column = ''] = keySql(types);
  const text = (bound: string): string => `CAST(${bound}(${column}) AS VARCHAR)`;
  const fits = `length(${text('min')}) + length(${text('max')}) <= ${keyLengthMax}`;
  return `CASE WHEN ${fits} THEN ${text('min')} END AS "firstKey",
    CASE WHEN ${fits} THEN ${text('max')} END AS "lastKey"`;
}

/** Selects the numbers of ranges with a staged key. */
export function rangesHitSql(
  types: RecordTypes,
  ranges: readonly { readonly at: number; readonly first: string; readonly last: string }[],
): string {
  const [column = ''] = keySql(types);
  const type = types.columns.find(({ name }) => named(name) === column)?.type ?? 'VARCHAR';
  const list = (texts: readonly string[]): string =>
    `CAST(unnest([${texts.map(quoted).join()}]) AS ${storedAs(type)})`;
  return `SELECT at_file FROM (SELECT unnest([${ranges.map(({ at }) => at).join()}]) AS at_file,
      ${list(ranges.map(({ first }) => first))} AS low,
      ${list(ranges.map(({ last }) => last))} AS high) AS ranges
    ASOF JOIN (SELECT DISTINCT ${column} AS staged FROM stage) AS keys ON low <= staged
    WHERE staged <= high`;
}

/** Selects the newest number of each key in raw lines, to compare with the table. */
export function newestSql(paths: readonly string[], types: RecordTypes): string {
  const names = keySql(types).join();
  const columns = types.columns.filter(({ field }) => types.key.includes(field));
  const rows = recordsSql(paths, { key: types.key, columns });
  return `SELECT ${names}, max(_seq) AS _seq FROM (${rows}) GROUP BY ${names}`;
}
