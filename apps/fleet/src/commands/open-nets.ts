import { wallClock } from 'spillway';
import { makeDatabaseFolder } from 'spillway-cli';
import { openDatabase } from 'spillway-sql';
import { NetShelf } from '../files/net-shelf.ts';
import type { Settings } from '../settings.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { FleetStorage } from '../storage/fleet-storage.ts';
import { netsFolder } from './fleet-desk.ts';

/** A server has nothing about nets in memory that a net put beside it could make wrong. */
export async function openNets(
  settings: Settings,
): Promise<AsyncDisposable & { readonly nets: NetShelf }> {
  await makeDatabaseFolder(settings.database);
  const database = await openDatabase<FleetSchema>(settings.database);
  const close = () => database[Symbol.asyncDispose]();
  try {
    await new FleetStorage(database).migrate();
  } catch (error) {
    await close();
    throw error;
  }
  const nets = new NetShelf({ folder: netsFolder(settings), database, clock: wallClock });
  return { nets, [Symbol.asyncDispose]: close };
}
