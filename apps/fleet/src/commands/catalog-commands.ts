import { Command } from 'commander';
import { print, table } from 'spillway-cli';
import type { NetShelf } from '../files/net-shelf.ts';
import type { ShownBook } from '../operations/book-operations.ts';
import { systemUser } from '../scheduling/actions.ts';
import { ask, examplesOf, settingsOf, withSettings } from './command-line.ts';
import { readJson } from './read-json.ts';

interface CatalogOptions {
  readonly json?: boolean;
  readonly list?: boolean;
  readonly user?: string;
}

/** `fleet net …`: the networks that workers get here. */
export function netCommands(): Command {
  const net = new Command('net').description('networks that workers get from this server');
  const add = new Command('add')
    .description('copy networks here; each is named by its SHA-256')
    .argument('<file...>')
    .option('--user <name>', 'who made them (default: the system)')
    .addHelpText('after', examplesOf('net add nn-1111cefa1111.nnue nn-37f18f62d772.nnue'))
    .action(async (files: string[], { json, user = systemUser }: CatalogOptions, self: Command) => {
      const nets = await withNets(self, async (shelf) => {
        const added = [];
        for (const file of files) added.push(await shelf.add(file, user));
        return added;
      });
      print(nets, json, () => nets.map(({ name }) => `Net ${name} was added.`).join('\n'));
    });
  const list = new Command('list')
    .description('show all networks')
    .addHelpText('after', examplesOf('net list'))
    .action(async ({ json }: CatalogOptions, self: Command) => {
      const nets = await withNets(self, (shelf) => shelf.list());
      const rows = nets.map(({ name, user, downloads }) => ({ name, user, downloads }));
      print(nets, json, () => table(rows, 'No networks yet; see fleet net add.'));
    });
  for (const command of [add, list]) {
    net.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return net;
}

/** `fleet book …`: the openings that runs begin with. */
export function bookCommands(): Command {
  const book = new Command('book').description('openings that runs begin with');
  const add = new Command('add')
    .description('let runs use books; workers check their copy by what is noted here')
    .argument('<file...>', '*.epd or *.pgn; with --list, JSON like books.json')
    .option('--list', 'the files are lists of books with their checksums')
    .addHelpText('after', examplesOf('book add noob_3moves.epd', 'book add --list books.json'))
    .action(async (files: string[], { json, list: isList }: CatalogOptions, self: Command) => {
      const { readBook } = await import('../files/books.ts');
      const books: Record<string, unknown> = {};
      for (const file of files) {
        if (isList) Object.assign(books, readJson(file));
        else Object.assign(books, entryOf(await readBook(file)));
      }
      const added = (await ask(self, 'book-add', { books })) as ShownBook[];
      print(added, json, () => added.map(({ name }) => `Book ${name} was added.`).join('\n'));
    });
  const list = new Command('list')
    .description('show all books')
    .addHelpText('after', examplesOf('book list'))
    .action(async ({ json }: CatalogOptions, self: Command) => {
      const books = (await ask(self, 'book-list', {})) as ShownBook[];
      print(books, json, () => table(books, 'No books yet; see fleet book add.'));
    });
  for (const command of [add, list]) {
    book.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return book;
}

function entryOf({ name, ...entry }: { readonly name: string }): Record<string, unknown> {
  return { [name]: entry };
}

async function withNets<T>(command: Command, work: (shelf: NetShelf) => Promise<T>): Promise<T> {
  const settings = settingsOf(command);
  const { openNets } = await import('./open-nets.ts');
  await using opened = await openNets(settings);
  return await work(opened.nets);
}
