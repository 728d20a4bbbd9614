import { createHash } from 'node:crypto';

/** The Avro types that Iceberg's files need; `field-id` is an extension of Iceberg. */
export type AvroType =
  | 'int'
  | 'long'
  | 'string'
  | 'bytes'
  | readonly ['null', AvroType]
  | { readonly type: 'int'; readonly logicalType: 'date' }
  | { readonly type: 'array'; readonly items: AvroType; readonly logicalType?: 'map' }
  | AvroRecord;

export interface AvroRecord {
  readonly type: 'record';
  readonly name: string;
  readonly fields: readonly {
    readonly name: string;
    readonly type: AvroType;
    readonly 'field-id': number;
    readonly default?: null;
  }[];
}

/** Makes an Avro object container file: a header with the schema, and all rows in one block. */
export function avroFile(
  schema: AvroRecord,
  rows: readonly Readonly<Record<string, unknown>>[],
  metadata: Readonly<Record<string, string>>,
): Buffer {
  const body = new Encoder();
  for (const row of rows) body.add(schema, row);
  const block = body.bytes;
  // A hash, so that the same rows give the same file.
  const sync = createHash('sha256').update(block).digest().subarray(0, 16);
  const header = { 'avro.schema': JSON.stringify(schema), 'avro.codec': 'null', ...metadata };
  const file = new Encoder();
  file.raw(Buffer.from('Obj\x01', 'latin1'));
  file.long(Object.keys(header).length);
  for (const [key, value] of Object.entries(header)) {
    file.add('string', key);
    file.add('string', value);
  }
  file.long(0);
  file.raw(sync);
  if (rows.length > 0) {
    file.long(rows.length);
    file.add('bytes', block);
    file.raw(sync);
  }
  return file.bytes;
}

/** Encodes values in Avro's binary format. */
class Encoder {
  readonly #parts: Buffer[] = [];

  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
  }

  /** Writes a zigzag varint. */
  long(value: number): void {
    let left = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n));
    const bytes: number[] = [];
    for (; left > 0x7fn; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
    bytes.push(Number(left));
    this.raw(Buffer.from(bytes));
  }

  add(type: AvroType, value: unknown): void {
    if (type === 'int' || type === 'long') this.long(value as number);
    else if (type === 'string' || type === 'bytes') {
      const bytes = Buffer.from(value as string | Buffer);
      this.long(bytes.length);
      this.raw(bytes);
    } else if ('fields' in type) {
      const row = value as Readonly<Record<string, unknown>>;
      for (const field of type.fields) this.add(field.type, row[field.name]);
    } else if ('items' in type) {
      const items = value as readonly unknown[];
      if (items.length > 0) this.long(items.length);
      for (const item of items) this.add(type.items, item);
      this.long(0);
    } else if ('logicalType' in type) this.add('int', value);
    else if (value === undefined || value === null) this.long(0);
    else {
      this.long(1);
      this.add(type[1], value);
    }
  }
}
