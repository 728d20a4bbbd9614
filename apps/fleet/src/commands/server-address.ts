import type { FleetStorage } from '../storage/fleet-storage.ts';

/** Where the server that decides takes commands. */
export interface ServerAddress {
  readonly url: string;
  /** Which server it is, so that nobody takes another one for it. */
  readonly instance: string;
}

const name = 'server_address';

/** What the last server noted; it may be gone. Undefined too if there is no database yet. */
export async function serverAddress(storage: FleetStorage): Promise<ServerAddress | undefined> {
  const noted = await storage.document(name).catch((error: unknown) => {
    if (/no such table|does not exist/.test(String(error))) return undefined;
    throw error;
  });
  const { url, instance } = Object(noted);
  return typeof url === 'string' && typeof instance === 'string' ? { url, instance } : undefined;
}

export function noteServerAddress(storage: FleetStorage, address: ServerAddress): Promise<void> {
  return storage.setDocument(name, address);
}
