import type { FieldReader } from '../field-reader.ts';
import type { BookShelf } from '../files/books.ts';
import type { NetShelf } from '../files/net-shelf.ts';
import type { Github } from '../outside/github.ts';
import type { Primary } from '../primary.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import type { Users } from '../users/users.ts';

/** What an operator's wishes are fulfilled with. */
export interface Desk {
  readonly primary: Pick<Primary, 'fleet' | 'change' | 'recall'>;
  readonly storage: FleetStorage;
  readonly users: Users;
  /** UNIX milliseconds. */
  readonly clock: { now(): number };
  readonly books: Pick<BookShelf, 'books' | 'store'>;
  readonly nets: Pick<NetShelf, 'has' | 'noteTest'>;
  /** Where commits and benches are looked up. @default nowhere: they are given by hand */
  readonly github?: Pick<Github, 'branch' | 'latestBench' | 'repository'> | undefined;
  /** Whether all accounts may test what is no fork of the official engine. @default false */
  readonly foreignRepos?: boolean | undefined;
}

/** One thing that an operator can ask for; the answer is plain JSON. */
export type Operation = (desk: Desk, input: FieldReader) => Promise<unknown>;
