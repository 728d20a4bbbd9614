import { Command } from 'commander';
import { makeDatabaseFolder, print, UsageError } from 'spillway-cli';
import { counted, examplesOf, settingsOf, withSettings } from './command-line.ts';

/** `ingest copy-store`: checkpoints and ledger into another store, to go on there. */
export function copyStoreCommand(): Command {
  const command = new Command('copy-store')
    .description('copy checkpoints and ledger to another store, sqlite:… or postgres://…')
    .argument('<url>', 'a store in which nothing is; set "store" to it afterwards')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('copy-store postgres://ingest@localhost/ingest'))
    .action(async (url: string, { json }: { readonly json?: boolean }, self: Command) => {
      const { store } = settingsOf(self);
      for (const place of [store, url]) {
        if (/^(sqlite:.|postgres(ql)?:\/\/)/.test(place)) continue;
        throw new UsageError('store: only those of SQLite and Postgres can be copied');
      }
      const { copyStore, Database } = await import('spillway-sql');
      await makeDatabaseFolder(url);
      await using from = await Database.open({ url: store });
      await using to = await Database.open({ url, deadlineMs: Infinity });
      const records = await copyStore(from, to);
      print({ records }, json, () => `${counted(records, 'record')} copied.`);
    });
  return withSettings(command, ['store']);
}
