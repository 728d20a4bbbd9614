import { Command } from 'commander';
import { restoreBackup, writeBackup } from 'spillway-cli';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';

/** `ranker backup`: everything of all users, as lines of JSON. */
export function backupCommand(): Command {
  const command = new Command('backup')
    .description('write all that the database holds as lines of JSON, also while a server runs')
    .argument('[file]', 'where to; standard output if it is left out')
    .addHelpText('after', examplesOf('backup ranker.jsonl', 'backup | gzip > ranker.jsonl.gz'))
    .action(async (file: string | undefined, _options: object, self: Command) => {
      const { database } = settingsOf(self);
      const { backup } = await import('../storage/backup.ts');
      await writeBackup(backup(database), file);
    });
  return withSettings(command);
}

/** `ranker restore`: reads a backup into a database that no server uses. */
export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('read what ranker backup has written, into SQLite or Postgres')
    .argument('[file]', 'where from; standard input if it is left out')
    .option('--replace', 'throw away what the database holds')
    .addHelpText(
      'after',
      examplesOf(
        'restore ranker.jsonl',
        'restore ranker.jsonl --database postgres://ranker@localhost/ranker',
      ),
    )
    .action(async (file: string | undefined, { replace }: { replace?: boolean }, self: Command) => {
      const { database } = settingsOf(self);
      const { restore } = await import('../storage/backup.ts');
      const rows = await restoreBackup({ file, database }, (open) => restore({ ...open, replace }));
      process.stderr.write(`Read ${rows} rows.\n`);
    });
  return withSettings(command);
}
