import { fleetError } from '../errors.ts';
import type { FieldReader } from '../field-reader.ts';
import { patterns } from '../protocol/schema.ts';
import { systemUser } from '../scheduling/actions.ts';
import type { Fleet } from '../scheduling/fleet.ts';
import { byProgress } from '../scheduling/hand-out.ts';
import { newRunRecord } from '../scheduling/manage-run.ts';
import type { Changes } from '../scheduling/records.ts';
import { Run } from '../scheduling/run.ts';
import { gamesOf } from '../scheduling/world.ts';
import { resultText } from '../statistics/run-statistics.ts';
import { objectId, runRecord } from '../storage/rows.ts';
import { readSubmission } from '../submission/read-submission.ts';
import { checkSource, completeSubmission, submissionText } from '../submission/submission.ts';
import type { Desk, Operation } from './desk.ts';
import { operatorName } from './user-operations.ts';

/** A run as operators see one in a list. */
export interface ShownRun {
  readonly id: string;
  readonly status: string;
  readonly new_tag: string;
  readonly base_tag: string;
  readonly username: string;
  readonly tc: string;
  readonly threads: number;
  readonly priority: number;
  readonly games: string;
  readonly workers: number;
  readonly result: string;
  /** Of a new run: what people should know. */
  readonly warnings?: readonly string[];
}

const listMax = 1_000;
/** An engine has two or three. */
const netsMax = 100;

/** What can be done to runs. */
export const runOperations: Readonly<Record<string, Operation>> = {
  'run-add': async (desk, input) => {
    input.only(['username', 'run', 'trial', 'approve']);
    const username = input.text('username', { rule: 'the name of a user', holds: Boolean });
    const trial = input.flag('trial', false);
    const approve = input.flag('approve', false);
    const user = await desk.users.find(username);
    if (user === undefined) {
      input.fault('username', `must be a user, and ${username} is none; see fleet user add`);
    }
    input.check();
    const sent = await completeSubmission(input.value('run'), desk.github);
    const nets = await knownNets(desk, sent);
    const context = { username, trial, books: desk.books.books, nets };
    const { submission, warnings } = await checkSource(readSubmission(sent, context), {
      github: desk.github,
      registrationTime: user?.registrationTime ?? 0,
      foreignRepos: desk.foreignRepos ?? false,
    });
    const { args, rescheduledFrom } = submission;
    const now = desk.clock.now();
    const run = new Run(newRunRecord({ id: objectId(now), args, now, rescheduledFrom }), [], []);
    await desk.primary.change((fleet) => fleet.addRun(run, submissionText(args)));
    for (const net of new Set([...args.base_nets, ...args.new_nets])) {
      await desk.nets.noteTest(net, { id: run.id, date: now });
    }
    await desk.users.change(username, { testsRepo: args.tests_repo });
    if (approve) await desk.primary.change((fleet) => fleet.approve(run, systemUser));
    return { ...shown(run), warnings };
  },

  'run-approve': (desk, input) =>
    change(desk, input, (fleet, run, { by }) => {
      if (run.args.username === by) {
        throw fleetError('REQUEST_REFUSED', `by: nobody approves their own run, not even ${by}`);
      }
      return fleet.approve(run, by);
    }),

  'run-pause': (desk, input) =>
    change(desk, input, (fleet, run, { by }) => fleet.unapprove(goingOn(run), by)),

  'run-stop': (desk, input) =>
    change(desk, input, (fleet, run, { by, message }) => fleet.stop(goingOn(run), by, message)),

  'run-purge': (desk, input) => change(desk, input, (fleet, run, { by }) => fleet.purge(run, by)),

  'run-list': async (desk, input) => {
    input.only(['finished', 'limit']);
    const isFinished = input.flag('finished', false);
    const limit = input.integer('limit', {
      rule: `an integer from 1 to ${listMax}`,
      holds: (value) => value >= 1 && value <= listMax,
      absent: 50,
    });
    input.check();
    if (!isFinished)
      return [...desk.primary.fleet.unfinishedRuns].sort(byProgress).slice(0, limit).map(shown);
    const rows = await desk.storage.database.kysely
      .selectFrom('runs')
      .selectAll()
      .where('finished', '=', 1)
      .where('deleted', '=', 0)
      .orderBy('last_updated', 'desc')
      .limit(limit)
      .execute();
    return rows.map((row) => shown(new Run(runRecord(row), [], [])));
  },

  'run-show': async (desk, input) => {
    input.only(['id']);
    const run = await find(desk, input);
    const { record } = run;
    const times = {
      start_time: new Date(record.start_time).toISOString(),
      last_updated: new Date(record.last_updated).toISOString(),
    };
    const result = resultOf(run);
    const tasks = { active: run.activeTasks.size, all: run.tasks.length, bad: run.badTasks.length };
    return { status: run.status, result, ...record, ...times, tasks };
  },
};

/** Those nets that a submission names and that are here. */
async function knownNets({ nets }: Desk, sent: unknown): Promise<Set<string>> {
  const { new_nets, base_nets } = Object(sent);
  const named = [new_nets, base_nets].flat().flatMap((names) => String(names ?? '').split(','));
  const known = new Set<string>();
  for (const name of new Set(named.slice(0, netsMax).map((one) => one.trim()))) {
    if (await nets.has(name)) known.add(name);
  }
  return known;
}

/** What has ended can neither be stopped nor paused: who asks for it means another one. */
function goingOn(run: Run): Run {
  if (!run.record.finished) return run;
  throw fleetError('REQUEST_REFUSED', `id: must be a run that goes on, and ${run.id} has ended`);
}

type Decide = (
  fleet: Fleet,
  run: Run,
  said: { readonly by: string; readonly message: string },
) => Changes;

async function change(desk: Desk, input: FieldReader, decide: Decide): Promise<ShownRun> {
  input.only(['id', 'by', 'message']);
  const by = await operatorName(desk, input);
  const message = input.text('message', {
    rule: 'text of at most 5120 characters',
    holds: (value) => value.length <= 5120,
    absent: '',
  });
  const run = await find(desk, input);
  await desk.primary.change((fleet) => decide(fleet, run, { by, message }));
  return shown(run);
}

/** A run by its id; a stored one is brought back into memory, where decisions are made. */
async function find({ primary }: Desk, input: FieldReader): Promise<Run> {
  const id = input.text('id', {
    rule: 'the 24 hexadecimal digits that fleet run list shows',
    holds: (value) => patterns.runId.test(value),
  });
  input.check();
  await primary.recall(id);
  const run = primary.fleet.run(id);
  if (run !== undefined) return run;
  throw fleetError('RECORD_UNKNOWN', `there is no run ${id}; see fleet run list`);
}

function shown(run: Run): ShownRun {
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
    result: resultOf(run)[0] ?? '',
  };
}

function resultOf({ record, args }: Run): readonly string[] {
  const { results } = record;
  const { num_games: numGames, sprt, spsa } = args;
  return resultText({ results, numGames, sprt, spsa }).info;
}
