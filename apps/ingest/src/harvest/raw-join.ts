import { createHash } from 'node:crypto';
import type { Json, Lease } from 'spillway';
import { type RawEntry, type RawFile, rawFileName } from '../files/raw-file.ts';
import {
  type Context,
  type ProductGeneration,
  ProductLedger,
  sourceName,
  takeProduct,
} from './ledger.ts';

/** Files from this size on are left as they are. */
const smallBytes = 2 ** 20;
const filesMin = 16;

/**
 * Joins the small raw files that a follower writes every few seconds; their bytes stay the same. It
 * looks at the commits after `after` up to `upTo`, which must be in the table already. It needs the
 * lease of the product, and does nothing if another process has it. Returns the commit after which
 * the next call has to begin.
 */
export async function joinRawFiles(
  of: ProductGeneration,
  range: { readonly after: number; readonly upTo: number },
  context: Context,
  signal: AbortSignal,
): Promise<number> {
  const found = await context.ledger.entries(of, { after: range.after, signal });
  const groups = joinable(found.filter(({ commit }) => commit <= range.upTo));
  const worth = groups.filter((group) => group.length >= filesMin);
  if (worth.length === 0) return range.after;
  try {
    await using lease = await takeProduct(of, context, signal);
    for (const group of worth) await join(of, group, context, lease);
  } catch (error) {
    if (Object(error).code !== 'LEASE_HELD') throw error;
    return range.after;
  }
  // Later files may be added to the last group.
  return (groups.at(-1)?.[0]?.commit ?? range.after + 1) - 1;
}

async function join(
  of: ProductGeneration,
  group: readonly RawEntry[],
  { store, folder }: Context,
  lease: Lease,
): Promise<void> {
  const { signal, fence } = lease;
  const parts: Uint8Array[] = [];
  for (const { file } of group) parts.push(await folder.read(file, signal));
  const bytes = Buffer.concat(parts);
  const first = group[0] as RawEntry;
  const last = group.at(-1) as RawEntry;
  const firstUs = Math.min(...group.map((entry) => entry.firstUs));
  const file = rawFileName({ ...of, fence, from: first.from, to: last.to, firstUs });
  await folder.write(file, bytes, signal);
  const joined: RawFile = {
    file,
    from: first.from,
    to: last.to,
    trades: group.reduce((sum, { trades }) => sum + trades, 0),
    firstId: first.firstId,
    lastId: last.lastId,
    firstUs,
    lastUs: Math.max(...group.map((entry) => entry.lastUs)),
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  };
  const changes = group.map((entry) => {
    const name = ProductLedger.ledgerName(sourceName(of), entry.commit);
    return entry === last ? { name, value: joined as unknown as Json } : { name };
  });
  if ((await store.commit(lease.guard(changes), { signal })) === undefined) return;
  for (const entry of group) await folder.delete(entry.file, signal);
}

/** Groups of neighbours by commit and id that are small together. */
function joinable(entries: readonly RawEntry[]): readonly (readonly RawEntry[])[] {
  const groups: RawEntry[][] = [];
  let bytes = Infinity;
  let lastId = Infinity;
  for (const entry of entries) {
    if (entry.firstId <= lastId || bytes + entry.bytes > smallBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(entry);
    bytes += entry.bytes;
    lastId = entry.lastId;
  }
  return groups;
}
