import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteFile } from 'hyparquet-writer';
import pLimit from 'p-limit';
import type { Harvesting, Pipeline } from '../ingest.ts';

export const pageSize = 1_000;
const filePages = 100;
/** As the seed had it after tuning by hand. */
const concurrency = 15;

export interface Trade {
  readonly trade_id: number;
  readonly side: string;
  readonly size: string;
  readonly price: string;
  readonly time: string;
}

/** Gets the newest trades before an id, a page of them; tries again by itself. */
export type PageOf = (after: number, signal: AbortSignal) => Promise<readonly Trade[]>;

/** An afternoon's work: p-limit, a Parquet writer; no checkpoint. */
export function byHand(
  source: string,
  open: (url: string, ratePerSecond: number) => PageOf,
): Pipeline {
  const own = readFileSync(import.meta.filename, 'utf8');
  const codeLines = [own, readFileSync(source, 'utf8')]
    .flatMap((text) => text.split('\n'))
    .filter((line) => /^\s*[^\s/*]/.test(line)).length;
  return {
    codeLines,
    async begin({ url, ratePerSecond, folder }): Promise<Harvesting> {
      const stop = new AbortController();
      const work = harvest(open(url, ratePerSecond), folder, stop.signal);
      work.catch(() => {});
      return {
        async done() {
          const trades = await work;
          return { trades, peakMb: process.resourceUsage().maxRSS / 1024 };
        },
        async [Symbol.asyncDispose]() {
          stop.abort();
          await work.catch(() => {});
        },
      };
    },
  };
}

async function harvest(page: PageOf, folder: string, signal: AbortSignal): Promise<number> {
  const limit = pLimit(concurrency);
  const [newest] = await page(1e12, signal);
  const last = newest?.trade_id ?? 0;
  let trades = 0;
  for (let from = 1; from <= last; from += filePages * pageSize) {
    const ends: number[] = [];
    const to = Math.min(last, from + filePages * pageSize - 1);
    for (let at = from; at <= to; at += pageSize) ends.push(Math.min(at + pageSize, to + 1));
    const pages = await Promise.all(ends.map((end) => limit(() => page(end, signal))));
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
