import { BookShelf } from '../files/book-shelf.ts';
import { NetShelf } from '../files/net-shelf.ts';
import type { Desk } from '../operations/desk.ts';
import type { Settings } from '../settings.ts';
import { wallClock } from '../wall-clock.ts';

/** The desk of a command that decides for itself. */
export async function openDesk(
  parts: Pick<Desk, 'storage' | 'users' | 'primary'>,
  settings: Settings,
): Promise<Desk> {
  const { database } = parts.storage;
  const books = await BookShelf.open(database);
  const nets = await NetShelf.open({ folder: settings.nets, database });
  return { ...parts, books, nets, clock: wallClock };
}
