import { readdir } from 'node:fs/promises';
import type { Desk } from '../operations/desk.ts';
import type { Primary } from '../primary.ts';
import { patterns } from '../protocol/patterns.ts';
import type { Settings } from '../settings.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import type { Users } from '../users/users.ts';
import { wallClock } from '../wall-clock.ts';

export interface FleetDeskOptions {
  readonly storage: FleetStorage;
  readonly users: Users;
  readonly primary: Primary;
  readonly settings: Settings;
}

/** The desk of a server, or of a command that decides for itself. */
export function fleetDesk({ storage, users, primary, settings }: FleetDeskOptions): Desk {
  const known = async () => {
    const books = Object(await storage.document('books'));
    const files = await readdir(settings.nets).catch(() => []);
    const nets = new Set(files.filter((name) => patterns.netName.test(name)));
    return { books: new Map(Object.entries(books)), nets };
  };
  return { storage, users, primary, clock: wallClock, known };
}
