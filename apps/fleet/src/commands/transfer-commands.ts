import { createReadStream, createWriteStream } from 'node:fs';
import { rename } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { makeDatabaseFolder, UsageError } from 'spillway-cli';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';

/** `fleet export`: everything as lines of JSON. */
export function exportCommand(): Command {
  const command = new Command('export')
    .description('write all there is as lines of JSON, also while a server runs')
    .argument('[file]', 'where to; standard output if it is left out')
    .option('--no-files', 'leave games, nets and books out')
    .addHelpText('after', examplesOf('export fleet.jsonl', 'export | gzip > fleet.jsonl.gz'))
    .action(async (file: string | undefined, options: { files: boolean }, self: Command) => {
      const { database, data } = settingsOf(self);
      const { exportFleet } = await import('../transfer/export-fleet.ts');
      const lines = exportFleet({ database, data, files: options.files });
      if (file === undefined) {
        await pipeline(lines, process.stdout, { end: false });
        return;
      }
      // A file of that name is always a whole one.
      const part = `${file}.part`;
      await pipeline(lines, createWriteStream(part, { flush: true, mode: 0o600 }));
      await rename(part, file);
      process.stderr.write(`All was written to ${file}. It holds the hashes of passwords.\n`);
    });
  return withSettings(command);
}

/** `fleet import`: everything from lines of JSON. */
export function importCommand(): Command {
  const command = new Command('import')
    .description('read what fleet export has written, into an empty database; all or nothing')
    .argument('[file]', 'where from; standard input if it is left out')
    .option('--replace', 'throw away what the database holds')
    .addHelpText(
      'after',
      examplesOf(
        'import fleet.jsonl',
        'import fleet.jsonl --database postgres://fleet@localhost/fleet',
      ),
    )
    .action(async (file: string | undefined, options: { replace?: boolean }, self: Command) => {
      if (file === undefined && process.stdin.isTTY) {
        throw new UsageError('file: is required where standard input is a terminal');
      }
      const { database, data } = settingsOf(self);
      const { importFleet } = await import('../transfer/import-fleet.ts');
      await makeDatabaseFolder(database);
      const source = file === undefined ? process.stdin : createReadStream(file);
      const { replace = false } = options;
      const { rows, files } = await importFleet({ database, data, source, replace });
      process.stderr.write(`Read ${rows} rows and ${files} files.\n`);
    });
  return withSettings(command);
}
