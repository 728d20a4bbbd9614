import type { TradePosition } from '../connectors/connector.ts';
import { ProductBook } from '../harvesting/product-book.ts';
import { openConnector } from '../open-connector.ts';
import type { Ingest } from '../open-ingest.ts';
import type { ProductLedger } from '../quality/verify.ts';
import { exchangeNames } from '../setting-rules.ts';

/** What the store says of every product of every exchange: a table holds them all. */
export async function productLedgers(
  { store }: Pick<Ingest, 'store'>,
  signal: AbortSignal,
): Promise<readonly ProductLedger[]> {
  const ledgers: ProductLedger[] = [];
  for (const exchange of exchangeNames) {
    await using connector = openConnector({ exchange, baseUrl: undefined }, {});
    const { hasDenseIds } = connector;
    const idOf = (position: TradePosition): number => connector.idOf(position);
    const book = new ProductBook(store, exchange);
    for (const product of await book.products(signal)) {
      const { current: generation } = await book.generations(product, signal);
      const of = { exchange, product, generation };
      const checkpoint = await book.checkpoint(of, signal);
      if (checkpoint === undefined) continue;
      const { begin, harvest } = checkpoint;
      const entries = await book.entries(of, { signal });
      const harvested = { from: idOf(begin), to: idOf(harvest.position) };
      const gaps = harvest.gaps.map(({ from, to }) => ({ from: idOf(from), to: idOf(to) }));
      ledgers.push({ ...of, entries, harvested, gaps, hasDenseIds });
    }
  }
  return ledgers;
}
