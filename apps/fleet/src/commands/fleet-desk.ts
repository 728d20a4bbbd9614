import { join } from 'node:path';
import { wallClock } from 'spillway';
import { BookShelf } from '../files/books.ts';
import { NetShelf } from '../files/net-shelf.ts';
import type { Desk } from '../operations/desk.ts';
import type { Settings } from '../settings.ts';

/** Where a server looks for nets. */
export function netsFolder({ data }: Settings): string {
  return join(data, 'nets');
}

/** The desk of a command that decides for itself. */
export async function openDesk(
  parts: Pick<Desk, 'storage' | 'users' | 'primary'>,
  settings: Settings,
): Promise<Desk> {
  const { database } = parts.storage;
  const books = new BookShelf(database);
  await books.reload();
  const nets = new NetShelf({ folder: netsFolder(settings), database, clock: wallClock });
  return { ...parts, books, nets, clock: wallClock };
}
