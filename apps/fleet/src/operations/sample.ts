import { randomPassword } from '../users/password.ts';
import { addBooks } from './catalog-operations.ts';
import { text } from './fields.ts';
import { type AnyOperation, operation } from './operation.ts';
import { shownRun, submitRun } from './run-operations.ts';
import { newName } from './user-operations.ts';

/** A book of the official collection, which workers fetch by themselves. */
export const sampleBooks: Readonly<Record<string, object>> = {
  'noob_3moves.epd': {
    total: 150932,
    white: 150932,
    black: 0,
    min_depth: 6,
    max_depth: 6,
    sri: 'FvfPX09TMPXct8CAIehuAZn16lLNP5Hn/tChtjz0sQ3bOh03OHi/r2LEosksvHKX',
  },
};

/** Stockfish 17 against itself. */
const engine = { sha: 'e0bfc4b69bbe928d6f474a46560bcc3b3f6709aa', signature: '1484730' };
const common = {
  new_tag: 'sf_17',
  base_tag: 'sf_17',
  resolved_new: engine.sha,
  resolved_base: engine.sha,
  new_signature: engine.signature,
  base_signature: engine.signature,
  book: 'noob_3moves.epd',
  tc: '10+0.1',
};
/** Runs to try a worker with. */
export const sampleRuns: readonly object[] = [
  { ...common, num_games: 1_000, info: 'A fixed number of games, to try a worker.' },
  { ...common, sprt: { elo0: 0, elo1: 2 }, info: 'A sequential test, to try a worker.' },
];

/** A user and two runs for a first worker. */
export const sampleOperations: Readonly<Record<string, AnyOperation>> = {
  seed: operation({
    about: 'a user and two approved runs; each waits until a worker asks for a task',
    examples: ['seed', 'seed --user me --json'],
    input: {
      username: text({
        ...newName,
        about: 'who submits the runs and sends the worker (default demo)',
        flag: '--user <name>',
        absent: 'demo',
      }),
    },
    role: 'approver',
    do: async (context, { username }, by) => {
      const { users, primary } = context;
      const isKnown = (await users.find(username)) !== undefined;
      const password = isKnown ? undefined : randomPassword();
      if (password !== undefined) {
        await users.add({ username, password, pending: false }, by.username);
      }
      await addBooks(context, sampleBooks, by);
      const open = [...primary.world.unfinished].filter(({ args }) => args.username === username);
      const runs = open.map(shownRun);
      for (const run of runs.length > 0 ? [] : sampleRuns) {
        runs.push(await submitRun(context, { username, run, trial: false, approve: true }, by));
      }
      return { username, password, runs };
    },
    say: ({ username, password, runs }) => {
      const secret = password ?? '(as it was; a new one: fleet user password)';
      return [
        `User ${username}, password, shown only now: ${secret}`,
        ...runs.map((run) => `Run ${run.id}: ${run.new_tag} at ${run.tc}, ${run.status}`),
        'A run that waits is played as soon as a worker asks for a task:',
        '  python3 worker.py <user> <password> --protocol http --host … --port …',
        'It gets the nets of the engine here: fleet net add <file>, or serve with --nets-url.',
      ].join('\n');
    },
  }),
};
