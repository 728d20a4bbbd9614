import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';

/** The share of an exchange's trades, in %, that are in the Parquet files once and right. */
export async function rightRows(folder: string, url: string, count: number): Promise<number> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const files = join(folder, '**', '*.parquet');
  const reader = await connection.runAndReadAll(
    `SELECT trade_id, CAST(any_value(price) AS DOUBLE), CAST(any_value(quantity) AS DOUBLE),
      count(*) FROM read_parquet('${files}') GROUP BY trade_id`,
  );
  const rows = new Map(reader.getRows().map(([id, ...rest]) => [Number(id), rest.map(Number)]));
  connection.closeSync();
  instance.closeSync();
  let right = 0;
  for (let after = count + 1; after > 1; after -= 1_000) {
    const answer = await askAgain(`${url}/products/BTC-USD/trades?limit=1000&after=${after}`);
    for (const { trade_id, price, size } of answer) {
      const [cost, quantity, times] = rows.get(trade_id) ?? [];
      if (cost === Number(price) && quantity === Number(size) && times === 1) right += 1;
    }
  }
  return (100 * right) / count;
}

interface Trade {
  readonly trade_id: number;
  readonly price: string;
  readonly size: string;
}

async function askAgain(url: string): Promise<readonly Trade[]> {
  for (;;) {
    const answer = await fetch(url);
    if (answer.ok) return (await answer.json()) as readonly Trade[];
    await answer.arrayBuffer();
  }
}
