import { Command } from 'commander';
import { print, table, UsageError } from 'spillway-cli';
import type { ShownRun } from '../operations/run-operations.ts';
import { presets } from '../submission/submission.ts';
import { ask, examplesOf, withSettings } from './command-line.ts';
import { readJson } from './read-json.ts';
import { submissionFlags, submissionOf } from './submission-flags.ts';

interface RunOptions {
  readonly approve?: boolean;
  readonly by?: string;
  readonly file?: string;
  readonly finished?: boolean;
  readonly json?: boolean;
  readonly limit?: string;
  readonly message?: string;
  readonly preset?: string;
  readonly trial?: boolean;
  readonly user?: string;
}

/** `fleet run …`: what is tested. */
export function runCommands(): Command {
  const run = new Command('run').description('what is tested, against what, and how');
  const changes = [
    change('approve', 'let workers play a run', 'is approved: workers get tasks of it'),
    change('pause', 'give workers no tasks of a run until it is approved again', 'is paused'),
    change('stop', 'end a run', 'has been stopped').option('--message <text>', 'why, for the log'),
    change('purge', 'set the games of the worst worker of a finished run aside', 'is purged'),
  ];
  for (const command of [add(), ...changes, list(), show()]) {
    run.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return run;
}

function add(): Command {
  const command = new Command('add')
    .description('submit a run; it is played once it is approved')
    .requiredOption('--user <name>', 'who submits it')
    .option('--file <json>', 'the run as JSON, - for standard input; flags come first')
    .option('--preset <name>', `${[...presets.keys()].join(', ')}: time, threads, hash, bounds`)
    .option('--trial', 'any even number of games will do')
    .option('--approve', 'approve it at once');
  for (const { flag, about } of submissionFlags) command.option(flag, about);
  return command
    .addHelpText(
      'after',
      examplesOf(
        'run add --user alice --preset STC --book noob_3moves.epd --new-tag faster \\\n' +
          '      --base-tag master --resolved-new <sha> --resolved-base <sha> \\\n' +
          '      --new-signature 1234567 --base-signature 1234567',
        'run add --user alice --file run.json --approve --json',
        'run add --user alice --file run.json --spsa params.txt --num-games 50000',
      ),
    )
    .action(async (options: RunOptions, self: Command) => {
      const preset = presetOf(options.preset);
      const fromFile = options.file === undefined ? {} : Object(readJson(options.file));
      const run = { ...preset, ...fromFile, ...submissionOf(self.opts()) };
      const { user: username, trial, approve } = options;
      const input = { username, run, trial, approve };
      const added = (await ask(self, 'run-add', input)) as ShownRun;
      const next = approve ? '' : `\nNobody plays it before: fleet run approve ${added.id}`;
      const notes = (added.warnings ?? []).map((warning) => `\nNote: ${warning}`).join('');
      const said = `Run ${added.id} was added: ${added.status}.${notes}${next}`;
      print(added, options.json, () => said);
    });
}

function change(name: string, about: string, said: string): Command {
  return new Command(name)
    .description(about)
    .argument('<id>', 'as fleet run list shows it')
    .option('--by <name>', 'the approver who does it (default: the system)')
    .addHelpText('after', examplesOf(`run ${name} 6afa1be9b94090e3817f825a`))
    .action(async (id: string, { by, message, json }: RunOptions, self: Command) => {
      const run = (await ask(self, `run-${name}`, { id, by, message })) as ShownRun;
      print(run, json, () => `Run ${run.id} ${said} (${run.games} games played).`);
    });
}

function list(): Command {
  return new Command('list')
    .description('show runs that are not finished, or those that are')
    .option('--finished', 'those that are, the latest first')
    .option('--limit <number>', 'how many at most (default 50)')
    .addHelpText('after', examplesOf('run list', 'run list --finished --limit 10 --json'))
    .action(async ({ finished, limit, json }: RunOptions, self: Command) => {
      const runs = (await ask(self, 'run-list', { finished, limit })) as ShownRun[];
      print(runs, json, () => table(runs, 'No such runs; see fleet run add.'));
    });
}

function show(): Command {
  return new Command('show')
    .description('show all of a run but its single tasks')
    .argument('<id>', 'as fleet run list shows it')
    .addHelpText('after', examplesOf('run show 6afa1be9b94090e3817f825a'))
    .action(async (id: string, { json }: RunOptions, self: Command) => {
      const run = (await ask(self, 'run-show', { id })) as Record<string, unknown>;
      print(run, json, () => lines(run).join('\n'));
    });
}

/** Each value on a line of its own, under its path. */
function lines(value: object, prefix = ''): string[] {
  return Object.entries(value).flatMap(([name, one]) => {
    const isPlain = one === null || typeof one !== 'object' || Array.isArray(one);
    if (!isPlain) return lines(one, `${prefix}${name}.`);
    return `${`${prefix}${name}`.padEnd(28)} ${Array.isArray(one) ? listText(one) : one}`;
  });
}

function listText(list: readonly unknown[]): string {
  return list.every((one) => typeof one !== 'object')
    ? list.join(', ')
    : `${list.length} (see --json)`;
}

function presetOf(name: string | undefined): object {
  if (name === undefined) return {};
  const preset = presets.get(name.toUpperCase());
  if (preset !== undefined) return preset;
  throw new UsageError(`--preset: must be one of ${[...presets.keys()].join(', ')}, got ${name}`);
}
