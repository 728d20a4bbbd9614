import { CompiledQuery } from 'kysely';
import type { DatabaseKind } from 'spillway-sql';

/** How rows of one table are written. */
export interface UpsertOptions {
  readonly kind: DatabaseKind;
  readonly table: string;
  /** Those that make a row what it is. */
  readonly keys: readonly string[];
  readonly columns: readonly string[];
}

/** Rows a statement: few sizes, so that the database prepares each only once. */
const sizes = [64, 8, 1];

/** Writes rows whole, whether they are there or not, many in a statement. */
export class Upsert<Row extends object> {
  readonly #options: UpsertOptions;
  readonly #texts = new Map<number, string>();

  constructor(options: UpsertOptions) {
    this.#options = options;
  }

  queries(rows: readonly Row[]): CompiledQuery[] {
    const queries: CompiledQuery[] = [];
    for (let at = 0; at < rows.length; ) {
      const size = sizes.find((one) => one <= rows.length - at) as number;
      const values = rows.slice(at, at + size).flatMap((row) => this.#values(row));
      queries.push(CompiledQuery.raw(this.#text(size), values));
      at += size;
    }
    return queries;
  }

  #values(row: Row): unknown[] {
    return this.#options.columns.map((column) => row[column as keyof Row] ?? null);
  }

  #text(size: number): string {
    const known = this.#texts.get(size);
    if (known !== undefined) return known;
    const { kind, table, keys, columns } = this.#options;
    const place = (at: number) => (kind === 'postgres' ? `$${at + 1}` : '?');
    const row = (at: number) =>
      `(${columns.map((_, column) => place(at * columns.length + column)).join(', ')})`;
    const rows = Array.from({ length: size }, (_, at) => row(at)).join(', ');
    const rest = columns.filter((column) => !keys.includes(column));
    const changes = rest.map((column) => `"${column}" = excluded."${column}"`).join(', ');
    const text =
      `insert into ${table} (${columns.map((column) => `"${column}"`).join(', ')}) ` +
      `values ${rows} on conflict (${keys.join(', ')}) do update set ${changes}`;
    this.#texts.set(size, text);
    return text;
  }
}
