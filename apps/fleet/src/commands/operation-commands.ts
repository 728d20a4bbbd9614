import { readFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { print, UsageError } from 'spillway-cli';
import type { Field, Fields } from '../operations/fields.ts';
import type { AnyOperation } from '../operations/operation.ts';
import { fieldsOf, operations } from '../operations/operations.ts';
import { runFields } from '../operations/submission.ts';
import { presets } from '../operations/submission-source.ts';
import { randomPassword } from '../users/password.ts';
import { ask, demandFiles, examplesOf, withSettings } from './command-line.ts';
import { readPassword } from './read-password.ts';

type Flags = Readonly<Record<string, unknown>>;

type ReadInput = (flags: Flags, words: readonly unknown[]) => object | Promise<object>;

/** The commands of the operations whose names begin like this: `fleet user add` is `user-add`. */
export function operationCommands(group: string, about: string): Command {
  const parent = new Command(group).description(about);
  for (const [name, operation] of operations) {
    if (name.startsWith(`${group}-`)) parent.addCommand(commandOf(name, operation));
  }
  return parent;
}

/** The command of an operation that belongs to no group. */
export function operationCommand(name: string): Command {
  return commandOf(name, operations.get(name) as AnyOperation);
}

function commandOf(name: string, operation: AnyOperation): Command {
  const { about, examples, words = [] } = operation;
  const command = new Command(name.slice(name.indexOf('-') + 1)).description(about);
  const fields = fieldsOf(operation);
  for (const word of words) {
    const shown = String(word).replace('username', 'name');
    command.argument(`<${shown}>`, fields[word]?.about ?? fields[word]?.rule ?? '');
  }
  const others = extras[name]?.(command);
  const flags = addFlags(command, fields, words);
  const hasSecret = Object.values(fields).some(({ kind }) => kind === 'secret');
  if (hasSecret) {
    command
      .option('--password-stdin', 'read the password from standard input, not from the terminal')
      .option('--password-random', 'make a password and show it once');
  }
  command
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf(...examples))
    .action(async (...received: readonly unknown[]) => {
      const given: Flags = command.opts();
      const input = { ...flags(given), ...(await others?.(given, received)) };
      for (const [at, word] of words.entries()) Object.assign(input, { [word]: received[at] });
      if (hasSecret) Object.assign(input, { password: await newPassword(given) });
      const answer = await ask(command, name, input);
      const { passwordRandom: isNew, json } = given;
      const { password } = input as { readonly password?: string };
      print(isNew ? { ...(answer as object), password } : answer, Boolean(json), () => {
        return `${operation.say(answer)}${isNew ? ` Password, shown only now: ${password}` : ''}`;
      });
    });
  return withSettings(command);
}

/** Adds a flag for each field; the result reads the fields from the given flags. */
function addFlags(
  command: Command,
  fields: Fields,
  without: readonly string[] = [],
): (given: Flags) => Record<string, unknown> {
  const readers = Object.entries(fields).flatMap(([name, field]) => {
    if (without.includes(name) || field.kind === 'any' || field.kind === 'secret') return [];
    const option = new Option(flagOf(name, field), field.about ?? field.rule);
    const isRequired = !field.isOptional && field.absent === undefined && fields !== runFields;
    command.addOption(option.makeOptionMandatory(isRequired));
    return [[name, (given: Flags) => sentOf(option, field, given)] as const];
  });
  return (given) => {
    const read = readers.map(([name, read]) => [name, read(given)] as const);
    return Object.fromEntries(read.filter(([, value]) => value !== undefined));
  };
}

const valueNames = { integer: '<number>', number: '<number>', words: '<names>', flag: '' };

function flagOf(name: string, field: Field<unknown>): string {
  const value = valueNames[field.kind as keyof typeof valueNames] ?? '<text>';
  return field.flag ?? `--${name.replaceAll('_', '-')} ${value}`.trim();
}

/** A flag without a value negates the value of the absent field. */
function sentOf(option: Option, { kind, absent }: Field<unknown>, given: Flags): unknown {
  const value = given[option.attributeName()];
  if (kind !== 'flag' || typeof value !== 'boolean') return value;
  return value === option.negate ? undefined : absent !== true;
}

/** Options for structured inputs: a run with its test, and files of books. */
const extras: Readonly<Record<string, (command: Command) => ReadInput>> = {
  'run-add': (command) => {
    const names = [...presets.keys()].join(', ');
    command
      .option('--file <json>', 'the run as JSON, - for standard input; flags come first')
      .option('--preset <name>', `${names}: time, threads, hash, bounds`)
      .option('--sprt <elo0,elo1>', 'test until one of the two is shown')
      .option('--elo-model <name>', 'normalized, logistic or BayesElo (default normalized)')
      .option('--spsa <file>', 'tune: lines of name,start,min,max,c_end,r_end')
      .option('--spsa-a <number>', 'A as a share of the iterations (default 0.1)')
      .option('--spsa-alpha <number>', 'default 0.602')
      .option('--spsa-gamma <number>', 'default 0.101');
    const fieldsIn = addFlags(command, runFields);
    return (flags) => {
      const fromFile = flags.file === undefined ? {} : Object(readJson(String(flags.file)));
      const own = { ...fieldsIn(flags), ...sprtOf(flags), ...spsaOf(flags) };
      return { run: { ...presetOf(flags.preset), ...fromFile, ...own } };
    };
  },

  'book-add': (command) => {
    command
      .argument('<file...>', '*.epd or *.pgn; with --list, JSON like books.json')
      .option('--list', 'the files are lists of books with their checksums');
    return async ({ list }, [files]) => {
      await demandFiles(files as readonly string[]);
      const { readBook } = await import('../files/books.ts');
      const books: Record<string, unknown> = {};
      for (const file of files as readonly string[]) {
        if (list) Object.assign(books, readJson(file));
        else {
          const { name, ...entry } = await readBook(file);
          books[name] = entry;
        }
      }
      return { books };
    };
  },
};

async function newPassword(flags: Flags): Promise<string> {
  return flags.passwordRandom ? randomPassword() : readPassword(Boolean(flags.passwordStdin));
}

function presetOf(name: unknown): object {
  if (name === undefined) return {};
  const preset = presets.get(String(name).toUpperCase());
  if (preset !== undefined) return preset;
  throw new UsageError(`--preset: must be one of ${[...presets.keys()].join(', ')}, got ${name}`);
}

function sprtOf({ sprt, eloModel }: Flags): object {
  if (sprt === undefined) {
    if (eloModel !== undefined) throw new UsageError('--elo-model: needs --sprt');
    return {};
  }
  const bounds = String(sprt).split(',');
  if (bounds.length !== 2) throw new UsageError(`--sprt: must be like 0,2, got ${sprt}`);
  const [elo0, elo1] = bounds;
  return { spsa: undefined, sprt: { elo0, elo1, elo_model: eloModel } };
}

function spsaOf({ spsa, spsaA, spsaAlpha, spsaGamma }: Flags): object {
  const others = { A: spsaA, alpha: spsaAlpha, gamma: spsaGamma };
  if (spsa !== undefined) {
    return { sprt: undefined, spsa: { raw_params: readText(String(spsa)), ...others } };
  }
  if (Object.values(others).every((value) => value === undefined)) return {};
  throw new UsageError('--spsa-a, --spsa-alpha, --spsa-gamma: need --spsa');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--spsa: cannot be read: ${(error as Error).message}`);
  }
}

/** A JSON file, or standard input if it is called `-`. */
function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path === '-' ? 0 : path, 'utf8'));
  } catch (error) {
    throw new UsageError(`${path}: cannot be read as JSON: ${(error as Error).message}`);
  }
}
