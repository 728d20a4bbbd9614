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

/** An Iceberg table: products whose columns can be read together. */
export interface IcebergTable {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly files: readonly TableFile[];
}

/** Columns of the partition, which are in the paths of files. */
export const parts: readonly (readonly [name: string, type: string])[] = [
  ['exchange', 'string'],
  ['product', 'string'],
  ['date', 'date'],
];
/** Field ids of the row's number (trade_id or _seq) and of its time. */
export const idField = 4;
export const timeField = 5;

/**
 * Makes the Iceberg tables of a state: `trades`, and one for each declared source. Iceberg cannot
 * change the scale of a decimal, or a number to text. So a product whose types do not fit gets a
 * table of its own, such as `trades_coinbase_SHIB_USD`.
 */
export function icebergTables({ products, files }: Manifest): readonly IcebergTable[] {
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

/** Returns the wider type if Iceberg can widen one to the other: decimals of the same scale. */
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
