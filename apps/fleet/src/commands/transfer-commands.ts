import { Command } from 'commander';
import { print, restoreBackup, UsageError, writeBackup } from 'spillway-cli';
import type { Settings } from '../settings.ts';
import type { ImportedCollection } from '../transfer/import-fishtest.ts';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';
import { checkNewDatabase, demandUsedDatabase } from './used-database.ts';

/** `fleet export`: everything as lines of JSON. */
export function exportCommand(): Command {
  const command = new Command('export')
    .alias('backup')
    .description('write all there is as lines of JSON, also while a server runs')
    .argument('[file]', 'where to; standard output if it is left out')
    .option('--no-files', 'leave games, nets and books out')
    .addHelpText('after', examplesOf('export fleet.jsonl', 'export | gzip > fleet.jsonl.gz'))
    .action(async (file: string | undefined, options: { files: boolean }, self: Command) => {
      const settings = await usedSettings(self);
      checkNewDatabase(settings, true);
      const { database, data } = settings;
      const { exportFleet } = await import('../transfer/export-fleet.ts');
      const onGone = (gone: string) => {
        process.stderr.write(`${gone} was removed meanwhile and is left out.\n`);
      };
      await writeBackup(exportFleet({ database, data, files: options.files, onGone }), file);
    });
  return withSettings(command, ['data', 'database']);
}

/** The settings, if their database is that of the last server. */
async function usedSettings(command: Command): Promise<Settings> {
  const settings = settingsOf(command);
  await demandUsedDatabase(settings);
  return settings;
}

interface ImportFlags {
  readonly replace?: boolean;
  readonly fishtest?: string;
  readonly json?: boolean;
}

/** `fleet import`: everything from lines of JSON, or from a fishtest server. */
export function importCommand(): Command {
  const command = new Command('import')
    .alias('restore')
    .description('read what fleet export has written, or what a fishtest server had')
    .argument('[file]', 'where from; standard input if it is left out')
    .option('--replace', 'delete the present content of the database')
    .option('--fishtest <folder>', 'read runs.json, users.json … as mongoexport prints them')
    .option('--json', 'with --fishtest: print JSON')
    .addHelpText(
      'after',
      examplesOf(
        'import fleet.jsonl',
        'import fleet.jsonl --database postgres://fleet@localhost/fleet',
        'import --fishtest dump',
      ),
    )
    .action(async (file: string | undefined, options: ImportFlags, self: Command) => {
      const { database, data } = await usedSettings(self);
      const { fishtest, replace = false } = options;
      if (fishtest !== undefined) {
        if (file !== undefined || replace) {
          throw new UsageError('--fishtest: takes neither a file nor --replace');
        }
        await importFrom(fishtest, database, options.json);
        return;
      }
      if (options.json) throw new UsageError('--json: goes with --fishtest only');
      const { importFleet } = await import('../transfer/import-fleet.ts');
      const { rows, files } = await restoreBackup({ file, database }, (open) => {
        return importFleet({ ...open, data, replace });
      });
      process.stderr.write(`Read ${rows} rows and ${files} files.\n`);
    });
  return withSettings(command, ['data', 'database']);
}

async function importFrom(folder: string, database: string, json?: boolean): Promise<void> {
  const { importFishtest } = await import('../transfer/import-fishtest.ts');
  const done = await importFishtest({
    database,
    folder,
    onProgress: ({ collection, documents, share }) => {
      const percent = Math.round(100 * share);
      process.stderr.write(`${collection}: ${documents} documents, ${percent} % of the file\n`);
    },
  });
  print(done, json, () => done.map(importedText).join('\n'));
  const isAnyHere = done.some(({ taken, kept }) => taken + kept > 0);
  if (isAnyHere || done.every(({ documents }) => documents === 0)) return;
  throw new Error(`${folder}: nothing was taken; the reasons are listed above`);
}

function importedText(one: ImportedCollection): string {
  const count = one.refused.reduce((sum, { count: more }) => sum + more, 0);
  const { collection, documents, taken, kept } = one;
  return [
    `${collection}: ${documents} read, ${taken} taken, ${kept} here already, ${count} refused`,
    ...one.refused.map(({ reason, count: times, examples }) => {
      return `  refused ${times}: ${reason}; ${examples.join(', ')}`;
    }),
    ...Object.entries(one.leftOut).map(([path, times]) => `  left out of ${times}: ${path}`),
  ].join('\n');
}
