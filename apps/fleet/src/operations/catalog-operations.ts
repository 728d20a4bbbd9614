import { table } from 'spillway-cli';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { type Book, type BookEntry, readBookList } from '../files/books.ts';
import { workerOwner } from '../protocol/read-request.ts';
import { blockWorker, unblockWorker } from '../world/manage.ts';
import { any, flag, integerIn, text } from './fields.ts';
import { type Actor, type AnyOperation, knownBooks, operation } from './operation.ts';

/** Openings that runs begin with. */
export const bookOperations: Readonly<Record<string, AnyOperation>> = {
  'book-add': operation({
    about: 'let runs use books; workers check their copy by what is noted here',
    examples: ['book add noob_3moves.epd', 'book add --list books.json'],
    input: { books: any },
    role: 'approver',
    do: (context, input, by) => addBooks(context, input.books, by),
    say: (added) => added.map(({ name }) => `Book ${name} was added.`).join('\n'),
  }),

  'book-list': operation({
    about: 'show all books',
    examples: ['book list'],
    input: {},
    role: 'reader',
    do: async (context) => shownBooks(await knownBooks(context)),
    say: (books) => table(books, noBooks),
  }),
};

const noBooks =
  'No books yet. A running server fetches the list of books from GitHub, if it may and can; ' +
  'else see fleet book add.';

/** Adds a list of books, with an entry in the log. */
export async function addBooks(
  { files, storage, clock }: Context,
  list: unknown,
  { username }: Actor,
): Promise<Book[]> {
  const added = readBookList(list);
  await files.books.store(added);
  const message = `added ${[...added.keys()].join(', ')}`;
  await storage.log({ time: clock.now() / 1000, action: 'new_book', username, message });
  return shownBooks(added);
}

function shownBooks(books: ReadonlyMap<string, BookEntry>): Book[] {
  return [...books].map(([name, entry]) => ({ name, ...entry }));
}

/** People whose machines played games. */
export const contributorOperations: Readonly<Record<string, AnyOperation>> = {
  contributors: operation({
    about: 'show games and core hours of all contributors; counted each hour',
    examples: ['contributors', 'contributors --month --limit 10 --json'],
    input: {
      month: flag(false, { about: 'of the last 30 days only' }),
      limit: integerIn(1, 10_000, { about: 'how many at most (default 50)', absent: 50 }),
    },
    role: 'reader',
    do: async ({ contributors }, { month, limit }) => {
      const all = await contributors.list(month ? 'top_month' : 'contributors');
      return all.slice(0, limit).map(({ username, cpu_hours, games, tests, last_updated }) => ({
        username,
        cpu_hours: Math.round(cpu_hours),
        games,
        tests,
        last_active: last_updated === 0 ? '' : new Date(last_updated).toISOString(),
      }));
    },
    say: (people) => table(people, 'Nobody has played a game that was counted yet.'),
  }),
};

const workerName = text({
  about: 'its short name, like ada-4cores-1a2b3c4d',
  rule: 'the short name of a worker, like ada-4cores-1a2b3c4d',
  holds: (value) => workerOwner(value) !== undefined,
});

/** Workers that get no tasks. */
export const workerOperations: Readonly<Record<string, AnyOperation>> = {
  'worker-block': operation({
    about: 'give a worker no more tasks; its owner is told why',
    examples: [
      'worker block ada-4cores-1a2b3c4d --message "its clock is wrong"',
      'worker block ada-4cores-1a2b3c4d --undo',
    ],
    words: ['name'],
    input: {
      name: workerName,
      message: text({
        about: 'message to its owner (the worker prints it; at most 500 characters)',
        rule: 'text of at most 500 characters',
        holds: (value) => value.length <= 500,
        absent: '',
      }),
      blocked: flag(true, { about: 'let it have tasks again', flag: '--undo' }),
    },
    role: 'approver',
    ownerOf: (_context, { name }) => workerOwner(name) ?? '',
    do: async ({ primary }, { name, message, blocked }, { username: by }) => {
      if (!blocked && primary.world.blocked.get(name) === undefined) {
        throw fleetError('RECORD_UNKNOWN', `no worker ${name} is blocked; see fleet worker list`);
      }
      await primary.change((world) =>
        blocked ? blockWorker(world, name, by, message) : unblockWorker(world, name, by),
      );
      return { name, blocked, message };
    },
    say: ({ name, blocked }) => `${name} ${blocked ? 'is blocked' : 'is not blocked any more'}.`,
  }),

  'worker-list': operation({
    about: 'show all workers that get no tasks',
    examples: ['worker list', 'worker list --json'],
    input: {},
    role: 'reader',
    do: async ({ primary }) =>
      [...primary.world.blocked].map(([name, { message, last_updated }]) => {
        return { name, message, last_updated: new Date(last_updated).toISOString() };
      }),
    say: (workers) => table(workers, 'No worker is blocked; see fleet worker block.'),
  }),
};
