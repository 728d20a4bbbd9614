import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parquetWriteFile } from 'hyparquet-writer';
import pLimit from 'p-limit';
import type { Harvesting, Pipeline } from '../ingest.ts';

const pageSize = 1_000;
const filePages = 100;
/** As the seed had it after tuning by hand. */
const concurrency = 15;
const attemptsMax = 10;

interface Trade {
  readonly trade_id: number;
  readonly side: string;
  readonly size: string;
  readonly price: string;
  readonly time: string;
}

/** An afternoon's work: fetch, p-limit, JSON.parse, a Parquet writer; no checkpoint. */
export const straightforward: Pipeline = {
  async begin(url, ratePerSecond): Promise<Harvesting> {
    const folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
    const stop = new AbortController();
    const work = harvest(url, ratePerSecond, folder.path, stop.signal);
    work.catch(() => {});
    return {
      async done() {
        const trades = await work;
        return { trades, peakMb: process.resourceUsage().maxRSS / 1024 };
      },
      async [Symbol.asyncDispose]() {
        stop.abort();
        await work.catch(() => {});
        await folder.remove();
      },
    };
  },
};

async function harvest(
  url: string,
  ratePerSecond: number,
  folder: string,
  signal: AbortSignal,
): Promise<number> {
  const limit = pLimit(concurrency);
  const stepMs = 1_000 / ratePerSecond;
  let slotAt = performance.now();
  const page = async (after: number, attempt = 1): Promise<readonly Trade[]> => {
    const now = performance.now();
    slotAt = Math.max(slotAt + stepMs, now);
    if (slotAt - now >= 1) await setTimeout(slotAt - now, undefined, { signal });
    const path = `${url}/products/BENCH-USD/trades?limit=${pageSize}&after=${after}`;
    try {
      const answer = await fetch(path, { signal });
      if (!answer.ok) throw new Error(String(answer.status));
      return (await answer.json()) as readonly Trade[];
    } catch (error) {
      if (attempt === attemptsMax || signal.aborted) throw error;
      return page(after, attempt + 1);
    }
  };
  const [newest] = await page(1e12);
  const last = newest?.trade_id ?? 0;
  let trades = 0;
  for (let from = 1; from <= last; from += filePages * pageSize) {
    const ends: number[] = [];
    const to = Math.min(last, from + filePages * pageSize - 1);
    for (let at = from; at <= to; at += pageSize) ends.push(Math.min(at + pageSize, to + 1));
    const pages = await Promise.all(ends.map((end) => limit(() => page(end))));
    const rows = pages.flat().filter((one) => one.trade_id >= from);
    rows.sort((a, b) => a.trade_id - b.trade_id);
    write(join(folder, `${from}.parquet`), rows);
    trades += rows.length;
  }
  return trades;
}

function write(filename: string, rows: readonly Trade[]): void {
  parquetWriteFile({
    filename,
    columnData: [
      { name: 'trade_id', data: rows.map((row) => row.trade_id), type: 'INT32' },
      { name: 'trade_ts', data: rows.map((row) => new Date(row.time)), type: 'TIMESTAMP' },
      { name: 'price', data: rows.map((row) => Number(row.price)), type: 'DOUBLE' },
      { name: 'quantity', data: rows.map((row) => Number(row.size)), type: 'DOUBLE' },
      { name: 'side', data: rows.map((row) => row.side), type: 'STRING' },
    ],
  });
}
