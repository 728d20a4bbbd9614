import type { Stats } from '../scheduling/stats.ts';
import { architectures } from './architectures.ts';
import { patterns } from './patterns.ts';
import {
  either,
  flag,
  integer,
  list,
  number,
  object,
  oneOf,
  pattern,
  type Rule,
  text,
  wrong,
} from './schema.ts';

const count = integer(0);
const version = list(count, 3);

/** Who asks, whatever else the request holds: all that is looked at before the password is. */
export const accessSchema: Rule = object({
  required: {
    password: text,
    worker_info: object({ required: { username: text }, open: true }),
  },
  open: true,
});

/** Totals that games and pairs can have come to. */
export const statsSchema: Rule = object({
  required: {
    wins: count,
    losses: count,
    draws: count,
    crashes: count,
    time_losses: count,
    pentanomial: list(count, 5),
  },
  together: (value, name) => {
    const { wins, losses, draws, pentanomial } = value as Stats;
    const [p0, p1, p2, p3, p4] = pentanomial as [number, number, number, number, number];
    const agree =
      wins + losses + draws === 2 * (p0 + p1 + p2 + p3 + p4) &&
      wins - losses === 2 * p4 + p3 - p1 - 2 * p0 &&
      p1 + p3 <= draws &&
      draws <= p1 + 2 * p2 + p3;
    return agree ? undefined : wrong(value, name, 'has games and pairs that do not agree');
  },
});

/** The batch that was just played with a trial's parameters. */
export const spsaSchema: Rule = object({
  required: { wins: count, losses: count, draws: count, num_games: count, sig: count },
  together: (value, name) => {
    const { wins, losses, draws, num_games } = value as Record<string, number>;
    const games = (wins as number) + (losses as number) + (draws as number);
    if ((num_games as number) % 2 !== 0) return wrong(value, name, 'has an odd num_games');
    return games === num_games ? undefined : wrong(value, name, 'does not add up to num_games');
  },
});

/** The strict schema of a worker's request; some users' names are older than the rule for names. */
export function requestSchema(legacyUsernames: ReadonlySet<string> = new Set()): Rule {
  const username = pattern(patterns.username, 'a user name: two letters or digits, or more');
  const worker_info = object({
    required: {
      uname: text,
      architecture: list(text, 2),
      concurrency: integer(1),
      max_memory: count,
      min_threads: integer(1),
      username: either(username, oneOf(legacyUsernames)),
      version: count,
      python_version: version,
      gcc_version: version,
      compiler: oneOf(new Set(['g++', 'clang++'])),
      unique_key: pattern(patterns.uniqueKey, 'a unique key'),
      modified: flag,
      worker_arch: oneOf(new Set([...architectures, 'unknown'])),
      ARCH: text,
      nps: number(0),
      near_github_api_limit: flag,
    },
  });
  return object({
    required: { password: text, worker_info },
    optional: {
      run_id: pattern(patterns.runId, 'a run id: 24 hexadecimal digits'),
      task_id: count,
      pgn: text,
      message: text,
      spsa: spsaSchema,
      stats: statsSchema,
    },
    together: (value, name) => {
      const { task_id, run_id } = value as Record<string, unknown>;
      return task_id === undefined || run_id !== undefined
        ? undefined
        : `${name}['run_id'] is missing, but there is a task_id`;
    },
  });
}
