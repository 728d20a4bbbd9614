import type { Transaction } from 'kysely';
import type { FleetSchema } from '../storage/fleet-schema.ts';

type Row = Readonly<Record<string, unknown>>;

const rowsMax = 100;

/** Puts rows of any table into a transaction, many at once. */
export class RowWriter {
  readonly #tx: Transaction<FleetSchema>;
  readonly #tables: ReadonlySet<string>;
  #table = '';
  #rows: Row[] = [];
  #count = 0;

  constructor(tx: Transaction<FleetSchema>, tables: Iterable<string>) {
    this.#tx = tx;
    this.#tables = new Set(tables);
  }

  get count(): number {
    return this.#count;
  }

  async add(table: string, row: unknown): Promise<void> {
    if (!this.#tables.has(table)) throw new Error(`there is no table ${table} here`);
    if (table !== this.#table || this.#rows.length >= rowsMax) await this.flush();
    this.#table = table;
    this.#rows.push(restored(Object(row)));
    this.#count += 1;
  }

  async flush(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    if (rows.length === 0) return;
    await this.#tx
      .insertInto(this.#table as never)
      .values(rows as never)
      .execute();
  }
}

/** With its bytes as they were. */
function restored(row: Row): Row {
  const pairs = Object.entries(row).map(([name, value]) => {
    const { $base64 } = Object(value) as { $base64?: unknown };
    return [name, typeof $base64 === 'string' ? Buffer.from($base64, 'base64') : value];
  });
  return Object.fromEntries(pairs) as Row;
}
