import { setTimeout } from 'node:timers/promises';
import type { Pipeline } from '../ingest.ts';
import { byHand, pageSize, type Trade } from './by-hand.ts';

const attemptsMax = 10;

/** One request after the other at the rate, with `fetch` and JSON.parse. */
export const withFetch: Pipeline = byHand(import.meta.filename, (url, ratePerSecond) => {
  const stepMs = 1_000 / ratePerSecond;
  let slotAt = performance.now();
  return async function page(after, signal, attempt = 1): Promise<readonly Trade[]> {
    const now = performance.now();
    slotAt = Math.max(slotAt + stepMs, now);
    if (slotAt - now >= 1) await setTimeout(slotAt - now, undefined, { signal });
    const path = `${url}/products/BTC-USD/trades?limit=${pageSize}&after=${after}`;
    try {
      const answer = await fetch(path, { signal });
      if (!answer.ok) throw new Error(String(answer.status));
      return (await answer.json()) as readonly Trade[];
    } catch (error) {
      if (attempt === attemptsMax || signal.aborted) throw error;
      return page(after, signal, attempt + 1);
    }
  };
});
