import { table } from 'spillway-cli';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';
import { resultText } from '../statistics/run-statistics.ts';
import { objectId } from '../storage/rows.ts';
import {
  addRun,
  approveRun,
  deleteRun,
  modifyRun,
  newRunRecord,
  purgeByUser,
  stopByUser,
} from '../world/manage.ts';
import { Changes } from '../world/records.ts';
import { byProgress, Run } from '../world/run.ts';
import { gamesOf, type World } from '../world/world.ts';
import {
  any,
  flag,
  InputError,
  type InputOf,
  integer,
  integerIn,
  optional,
  text,
} from './fields.ts';
import {
  type Actor,
  type AnyOperation,
  knownBooks,
  operation,
  type Question,
} from './operation.ts';
import { changeableFields, readSubmission } from './submission.ts';
import { checkSource, completeSubmission, submissionText } from './submission-source.ts';

const listMax = 1_000;
/** An engine has two or three. */
const netsMax = 100;
const exampleId = '6afa1be9b94090e3817f825a';

const id = text({
  about: 'as fleet run list shows it',
  rule: 'the 24 hexadecimal digits that fleet run list shows',
  holds: (value) => patterns.runId.test(value),
});
const message = text({
  about: 'why, for the log',
  rule: 'text of at most 5120 characters',
  holds: (value) => value.length <= 5120,
  absent: '',
});

const addFields = {
  username: text({
    about: 'the submitter',
    flag: '--user <name>',
    rule: 'the name of a user',
    holds: Boolean,
  }),
  run: any,
  trial: flag(false, { about: 'any even number of games will do' }),
  approve: flag(false, { about: 'approve it at once' }),
};

/** Runs: what is tested, against what, and how. */
export const runOperations: Readonly<Record<string, AnyOperation>> = {
  'run-add': operation({
    about: 'submit a run; it is played once it is approved',
    examples: [
      'run add --user alice --preset STC --book noob_3moves.epd --new-tag faster \\\n' +
        '      --base-tag master --resolved-new <sha> --resolved-base <sha> \\\n' +
        '      --new-signature 1234567 --base-signature 1234567',
      'run add --user alice --file run.json --approve --json',
      'run add --user alice --file run.json --spsa params.txt --num-games 50000',
    ],
    input: addFields,
    role: 'approver',
    ownerOf: (_context, { username }) => username,
    do: submitRun,
    say: ({ id, status, warnings }) => {
      const notes = warnings.map((warning) => `\nNote: ${warning}`).join('');
      const next = status === 'pending' ? `\nNobody plays it before: fleet run approve ${id}` : '';
      return `Run ${id} was added: ${status}.${notes}${next}`;
    },
  }),

  'run-approve': change({
    about: 'let workers play a run',
    name: 'approve',
    asks: { text: 'Workers will play it as soon as one is free.', done: 'is approved' },
    decide: (world, run, by) => approveRun(world, goingOn(ofOthers(run, by)), by),
  }),

  'run-pause': change({
    about: 'give workers no tasks of a run until it is approved again',
    name: 'pause',
    asks: { text: 'Workers get no tasks of it until it is approved again.', done: 'is paused' },
    isOwners: true,
    decide: (world, run, by) => approveRun(world, goingOn(run), by, false),
  }),

  'run-stop': change({
    about: 'end a run',
    name: 'stop',
    asks: {
      text: 'Its workers are given other work. The games so far are kept.',
      done: 'has been stopped',
      danger: true,
    },
    isOwners: true,
    decide: (world, run, by, why) => stopByUser(world, goingOn(run), by, why),
  }),

  'run-purge': change({
    about: 'set the games of the worst worker of a finished run aside',
    name: 'purge',
    asks: {
      text: 'The games of the worker most unlike the others are set aside and played again.',
      done: 'is purged',
      danger: true,
    },
    isOwners: true,
    decide: (world, run, by) => purgeByUser(world, run, by),
  }),

  'run-delete': change({
    about: 'end a run, and show it in no list any more',
    name: 'delete',
    asks: {
      text: 'It is shown in no list any more. Its page stays at its address.',
      done: 'has been deleted',
      danger: true,
    },
    isOwners: true,
    decide: (world, run, by) => deleteRun(world, run, by),
  }),

  'run-modify': operation({
    about: 'change how a run is played; what is left out stays as it is',
    examples: [`run modify ${exampleId} --priority 1`, `run modify ${exampleId} --num-games 40000`],
    words: ['id'],
    input: {
      id,
      num_games: optional(
        integer({ rule: 'a number of games', about: 'games (a multiple of 1000)' }),
      ),
      priority: optional({
        ...changeableFields.priority,
        about: 'priority (higher goes first; above 0 needs a new approval)',
      }),
      throughput: optional({
        ...changeableFields.throughput,
        about: 'throughput (share of the fleet in percent; above 100 needs a new approval)',
      }),
      auto_purge: optional({
        ...flag(false, { about: 'purge automatically (set bad workers aside at the end)' }),
        flag: '--auto-purge <true|false>',
      }),
      info: optional(changeableFields.info),
    },
    role: 'approver',
    ownerOf: submitterOf,
    do: async (context, { id: runId, ...sent }, by) => {
      const run = await find(context, runId);
      const { num_games, priority, throughput, auto_purge, info } = run.args;
      const given = Object.entries(sent).filter(([, value]) => value !== undefined);
      const as = { num_games, priority, throughput, auto_purge, info };
      const to = { ...as, ...Object.fromEntries(given) };
      const changed = await context.primary.decide((world) => {
        // Without any given value a stopped run must not go on.
        const changes = given.length === 0 ? new Changes() : modifyRun(world, run, to, by);
        return { reply: changes.runs.size > 0, changes };
      });
      return { ...shownRun(run), changed };
    },
    say: (run) => {
      const done = run.changed ? 'was changed' : 'stays as it is: no other value was given';
      return `Run ${run.id} ${done}; ${run.status}, priority ${run.priority}.`;
    },
  }),

  'run-list': operation({
    about: 'show runs that are not finished, or those that are',
    examples: ['run list', 'run list --finished --limit 10 --json'],
    input: {
      finished: flag(false, { about: 'those that are, the latest first' }),
      limit: integerIn(1, listMax, { about: 'how many at most (default 50)', absent: 50 }),
    },
    role: 'reader',
    do: async ({ primary, source }, { finished, limit }) => {
      if (finished) {
        const records = await source.finished({ pageSize: limit });
        return [...records].map((record) => shownRun(new Run(record)));
      }
      return [...primary.world.unfinished].sort(byProgress).slice(0, limit).map(shownRun);
    },
    say: (runs) => table(runs, 'No such runs; see fleet run add.'),
  }),

  'run-show': operation({
    about: 'show all of a run but its single tasks',
    examples: [`run show ${exampleId}`],
    words: ['id'],
    input: { id },
    role: 'reader',
    do: async (context, input) => {
      const run = await find(context, input.id);
      const { record } = run;
      const times = {
        start_time: new Date(record.start_time).toISOString(),
        last_updated: new Date(record.last_updated).toISOString(),
      };
      const { activeTasks, tasks, badTasks } = run;
      const counts = { active: activeTasks.size, all: tasks.length, bad: badTasks.length };
      const { info: result } = resultText(record.args, record.results);
      return { status: run.status, result, ...record, ...times, tasks: counts };
    },
    say: (run) => lines(run).join('\n'),
  }),
};

/** Checks and stores a run; gives it as in lists, with warnings. */
export async function submitRun(
  context: Context,
  input: InputOf<typeof addFields>,
  { username: by }: Actor,
) {
  const { username, trial, approve } = input;
  const { users, files, primary, clock, foreignRepos } = context;
  const { github, nets } = files;
  const user = await users.find(username);
  if (user === undefined) {
    const message = `must be a user, and ${username} is none; see fleet user add`;
    throw new InputError([{ field: 'username', message }]);
  }
  const sent = await completeSubmission(input.run, github);
  const known = { books: await knownBooks(context), nets: await knownNets(context, sent) };
  const read = readSubmission(sent, { username, trial, ...known });
  const { registration_time: registrationTime } = user;
  const checked = await checkSource(read, { github, registrationTime, foreignRepos });
  const { args, rescheduledFrom } = checked.submission;
  const now = clock.now();
  const run = new Run(newRunRecord({ id: objectId(now), args, now, rescheduledFrom }));
  if (approve) ofOthers(run, by);
  await primary.change((world) => addRun(world, run, submissionText(args)));
  for (const net of new Set([...args.base_nets, ...args.new_nets])) {
    await nets.noteTest(net, { id: run.id, date: now });
  }
  await users.change(username, { tests_repo: args.tests_repo });
  if (approve) await primary.change((world) => approveRun(world, run, by));
  return { ...shownRun(run), warnings: checked.warnings };
}

/** The nets that a submission names and that are here. */
async function knownNets({ files }: Context, sent: unknown): Promise<Set<string>> {
  const { new_nets, base_nets } = Object(sent);
  const named = [new_nets, base_nets].flat().flatMap((names) => String(names ?? '').split(','));
  const known = new Set<string>();
  for (const name of new Set(named.slice(0, netsMax).map((one) => one.trim()))) {
    if (await files.obtainNet(name)) known.add(name);
  }
  return known;
}

interface RunChange {
  readonly about: string;
  readonly name: string;
  readonly asks: Question;
  /** True if the submitter of the run may do it too. @default false */
  readonly isOwners?: boolean;
  decide(world: World, run: Run, by: string, message: string): Changes;
}

/** An operation that changes one run. */
function change({ about, name, asks, decide, isOwners = false }: RunChange): AnyOperation {
  return operation({
    about,
    asks,
    examples: [`run ${name} ${exampleId}`],
    words: ['id'],
    input: { id, message },
    role: 'approver',
    ...(isOwners && { ownerOf: submitterOf }),
    do: async (context, input, { username: by }) => {
      const run = await find(context, input.id);
      await context.primary.change((world) => decide(world, run, by, input.message));
      return shownRun(run);
    },
    say: (run) => `Run ${run.id} ${asks.done} (${run.games} games played).`,
  });
}

/** Throws `REQUEST_REFUSED` for a run that has ended. */
function goingOn(run: Run): Run {
  if (!run.record.finished) return run;
  throw fleetError('REQUEST_REFUSED', `id: must be a run that goes on, and ${run.id} has ended`);
}

async function submitterOf(context: Context, input: { readonly id: string }): Promise<string> {
  return (await find(context, input.id)).args.username;
}

function ofOthers(run: Run, by: string): Run {
  if (run.args.username !== by) return run;
  throw fleetError('REQUEST_REFUSED', `by: nobody approves their own run, not even ${by}`);
}

/** A run by its id; a stored one is brought back into memory, where decisions are made. */
async function find({ primary }: Context, runId: string): Promise<Run> {
  await primary.recall(runId);
  const run = primary.world.run(runId);
  if (run !== undefined) return run;
  throw fleetError('RECORD_UNKNOWN', `there is no run ${runId}; see fleet run list`);
}

/** A run as operators see one in a list. */
export function shownRun(run: Run) {
  const { record, args } = run;
  return {
    id: run.id,
    status: run.status,
    new_tag: args.new_tag,
    base_tag: args.base_tag,
    username: args.username,
    tc: args.tc,
    threads: args.threads,
    priority: args.priority,
    games: `${gamesOf(record.results)}/${args.num_games}`,
    workers: record.workers,
    result: resultText(args, record.results).info[0] ?? '',
  };
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
