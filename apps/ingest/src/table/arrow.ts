import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type DuckDBDateValue,
  type DuckDBDecimalType,
  type DuckDBDecimalValue,
  type DuckDBTimestampTZValue,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBValue,
} from '@duckdb/node-api';
import {
  Bool,
  type Data,
  type DataType,
  DateDay,
  Decimal,
  Field,
  Float64,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  Schema,
  Struct,
  TimestampMicrosecond,
  Utf8,
} from 'apache-arrow';
import type { Engine } from './engine.ts';

/** Rows of one record batch, about; a batch is in memory at once. */
const batchRows = 61_440;

/** Writes the rows of a query as one Arrow IPC file, batch by batch; returns their number. */
export async function writeArrow(
  engine: Engine,
  select: string,
  path: string,
  signal: AbortSignal,
): Promise<number> {
  return await engine.within(signal, async () => {
    // Opened first: a stream that fails before the pipeline handles its errors ends the process.
    await using file = await open(path, 'w');
    const result = await engine.connection.stream(select);
    const types = result.columnTypes();
    const fields = result.deduplicatedColumnNames().map((name, at) => {
      return new Field(name, arrowType(types[at] as DuckDBType), true);
    });
    const schema = new Schema(fields);
    let rows = 0;
    const batches = async function* (): AsyncGenerator<RecordBatch> {
      let columns: DuckDBValue[][] = types.map(() => []);
      const batch = (): RecordBatch => {
        const children = columns.map((values, at) => arrowData(fields[at] as Field, values));
        const length = columns[0]?.length ?? 0;
        rows += length;
        columns = types.map(() => []);
        return new RecordBatch(schema, makeData({ type: new Struct(fields), length, children }));
      };
      for (;;) {
        const chunk = await result.fetchChunk();
        const isEnd = chunk === null || chunk.rowCount === 0;
        // Also a file without rows has a batch, which carries the schema.
        const isFull = (columns[0]?.length ?? 0) >= batchRows;
        if (isFull || (isEnd && (rows === 0 || columns[0]?.length !== 0))) yield batch();
        if (isEnd) return;
        for (const [at, column] of columns.entries()) column.push(...chunk.getColumnValues(at));
      }
    };
    const writer = RecordBatchFileWriter.throughNode();
    await pipeline(Readable.from(batches()), writer, file.createWriteStream(), { signal });
    return rows;
  });
}

function arrowType(type: DuckDBType): DataType {
  switch (type.typeId) {
    case DuckDBTypeId.BIGINT:
      return new Int64();
    case DuckDBTypeId.DOUBLE:
      return new Float64();
    case DuckDBTypeId.BOOLEAN:
      return new Bool();
    case DuckDBTypeId.DATE:
      return new DateDay();
    case DuckDBTypeId.TIMESTAMP_TZ:
      return new TimestampMicrosecond('UTC');
    case DuckDBTypeId.DECIMAL: {
      const { scale, width } = type as DuckDBDecimalType;
      return new Decimal(scale, width, 128);
    }
    default:
      return new Utf8();
  }
}

/** Makes the buffers of one column of a batch. */
function arrowData({ type }: Field, values: readonly DuckDBValue[]): Data {
  const { length } = values;
  /** Makes a bitmap, the lowest bit first. */
  const bits = (is: (value: DuckDBValue) => boolean): Uint8Array => {
    const bytes = new Uint8Array(Math.ceil(length / 8));
    for (const [at, value] of values.entries()) {
      if (is(value)) bytes[at >> 3] = (bytes[at >> 3] as number) | (1 << (at & 7));
    }
    return bytes;
  };
  const nullBitmap = bits((value) => value !== null);
  const nullCount = values.filter((value) => value === null).length;
  const common = { length, nullCount, nullBitmap };
  const each = <T>(read: (value: never) => T, none: T): T[] =>
    values.map((value) => (value === null ? none : read(value as never)));
  if (type instanceof Int64) {
    return makeData({ type, ...common, data: BigInt64Array.from(each(BigInt, 0n)) });
  }
  if (type instanceof TimestampMicrosecond) {
    const micros = each((value: DuckDBTimestampTZValue) => value.micros, 0n);
    return makeData({ type, ...common, data: BigInt64Array.from(micros) });
  }
  if (type instanceof Decimal) {
    const words = each((value: DuckDBDecimalValue) => value.value, 0n).flatMap((value) => {
      return [BigInt.asUintN(64, value), BigInt.asUintN(64, value >> 64n)];
    });
    const data = new Uint32Array(BigUint64Array.from(words).buffer);
    return makeData({ type, ...common, data });
  }
  if (type instanceof Float64) {
    return makeData({ type, ...common, data: Float64Array.from(each(Number, 0)) });
  }
  if (type instanceof DateDay) {
    const days = each((value: DuckDBDateValue) => value.days, 0);
    return makeData({ type, ...common, data: Int32Array.from(days) });
  }
  if (type instanceof Bool) {
    return makeData({ type, ...common, data: bits((value) => value === true) });
  }
  const texts = each((value: DuckDBValue) => Buffer.from(String(value)), Buffer.alloc(0));
  const valueOffsets = new Int32Array(length + 1);
  for (const [at, text] of texts.entries()) {
    valueOffsets[at + 1] = (valueOffsets[at] as number) + text.length;
  }
  return makeData({ type: new Utf8(), ...common, valueOffsets, data: Buffer.concat(texts) });
}
