import { resolve } from 'node:path';
import { Command } from 'commander';
import { makeDatabaseFolder, print, UsageError } from 'spillway-cli';
import { settingsReader } from '../settings.ts';
import { counted, examplesOf, settingsOf, withSettings } from './command-line.ts';

/** Time limit of a copy, in ms. */
const copyMsMax = 3_600_000;

interface CopyOptions {
  readonly undo?: boolean;
  readonly json?: boolean;
}

/** `ingest copy-store`: copies checkpoints and ledger to another store, to continue there. */
export function copyStoreCommand(): Command {
  const command = new Command('copy-store')
    .description('copy checkpoints and ledger to another store, sqlite:… or postgres://…')
    .argument('[url]', 'a store in which nothing is; set "store" to it afterwards')
    .option('--undo', 'use the store again that was copied, as it was then')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('copy-store postgres://ingest@localhost/ingest'))
    .action(copyOrUndo);
  return withSettings(command, ['store']);
}

async function copyOrUndo(
  url: string | undefined,
  { undo = false, json }: CopyOptions,
  self: Command,
): Promise<void> {
  if ((url === undefined) !== undo) throw new UsageError('name either a store or --undo');
  const settings = settingsOf(self);
  for (const place of [settings.store, url ?? settings.store]) {
    if (/^(sqlite:.|postgres(ql)?:\/\/)/.test(place)) continue;
    throw new UsageError('store: only those of SQLite and Postgres can be copied');
  }
  const { copiedTo, refuseCopied } = await import('../harvest/copied-store.ts');
  const { copyStore, Database } = await import('spillway-sql');
  await using from = await Database.open({ url: settings.store });
  await using store = await from.store();
  if (url === undefined) {
    const [mark] = (await store.read([copiedTo])).records;
    if (mark === undefined) throw new UsageError('the store was not copied: nothing is to undo');
    await store.commit([{ name: copiedTo }]);
    print({ was: mark.value }, json, () => `The store is used again, not ${mark.value}.`);
    return;
  }
  await refuseCopied(store);
  await makeDatabaseFolder(url);
  await using to = await Database.open({ url, deadlineMs: Infinity });
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  const shown = () => String(settingsReader.shown({ ...settings, store: url }).store);
  const address = path === undefined ? shown() : `sqlite:${resolve(path)}`;
  const mark = { name: copiedTo, value: address };
  // The mark comes first, so that running processes commit nothing that the copy would lack. It
  // expires if this process is killed, and expiring records are not copied.
  await store.commit([{ ...mark, ttlMs: copyMsMax }]);
  try {
    const records = await copyStore(from, to);
    await store.commit([mark]);
    print({ records }, json, () => {
      return `${counted(records, 'record')} copied. Set "store" to ${address} now.`;
    });
  } catch (error) {
    await store.commit([{ name: copiedTo }]);
    throw error;
  }
}
