import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { wallClock } from 'spillway';
import { type Exchange, startExchange } from '../exchange/exchange.ts';

const ids = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
const stepUs = 250_000;
const dayUs = 86_400_000_000;

/** An exchange for this data folder alone: started again, it goes on with the same history. */
export async function startSimulation(
  data: string,
): Promise<Exchange & { readonly products: readonly string[] }> {
  const startUs = await beginning(data);
  const nowUs = Math.floor(wallClock.now() * 1000);
  const exchange = await startExchange({
    products: ids.map((id) => {
      const trades = Math.max(0, Math.floor((nowUs - startUs) / stepUs));
      return { id, trades, startUs, stepUs, growthPerSecond: 1e6 / stepUs };
    }),
    rate: { ratePerSecond: 10, burst: 15 },
    latency: { meanMs: 150 },
    trouble: { error: 0.01, reset: 0.002, truncated: 0.002 },
  });
  return Object.assign(exchange, { products: ids });
}

/** When its first trade was: a quarter of a day before it was first started. */
async function beginning(data: string): Promise<number> {
  const path = join(data, 'simulation.json');
  try {
    const { startUs } = JSON.parse(await readFile(path, 'utf8'));
    if (Number.isSafeInteger(startUs)) return startUs;
  } catch {}
  const startUs = Math.floor(wallClock.now() * 1000 - dayUs / 4);
  await mkdir(data, { recursive: true });
  await writeFile(`${path}.tmp`, JSON.stringify({ startUs }), { flush: true });
  await rename(`${path}.tmp`, path);
  return startUs;
}
