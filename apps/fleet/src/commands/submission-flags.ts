import { readFileSync } from 'node:fs';
import { UsageError } from 'spillway-cli';

type Flags = Readonly<Record<string, unknown>>;

/** Each field of a run as a flag: `--new-tag` is `new_tag`. */
export const submissionFlags: readonly { readonly flag: string; readonly about: string }[] = [
  { flag: '--new-tag <name>', about: 'the branch to test' },
  { flag: '--base-tag <name>', about: 'the branch it plays against' },
  {
    flag: '--resolved-new <sha>',
    about: 'its commit (default: as GitHub says, if the server asks it)',
  },
  { flag: '--resolved-base <sha>', about: 'the same for what it plays against' },
  { flag: '--new-signature <number>', about: 'its bench (default: as its commit says)' },
  { flag: '--base-signature <number>', about: 'the same for what it plays against' },
  { flag: '--new-options <options>', about: 'like "Hash=16 Threads=1" (default Hash=16)' },
  { flag: '--base-options <options>', about: 'the same for what it plays against' },
  { flag: '--new-nets <names>', about: 'its nets, with commas between them' },
  { flag: '--base-nets <names>', about: 'the same for what it plays against' },
  { flag: '--tests-repo <url>', about: 'where the branches are (default: the official one)' },
  { flag: '--tc <time>', about: 'seconds a game and a move, like 10+0.1' },
  { flag: '--new-tc <time>', about: 'for the branch to test, if it has another' },
  { flag: '--book <name>', about: 'the openings, as fleet book list shows them' },
  { flag: '--book-depth <moves>', about: 'how far into the book (default 8)' },
  { flag: '--threads <number>', about: 'of each engine (default 1)' },
  { flag: '--num-games <number>', about: 'thousands of games (default for a test: 800000)' },
  { flag: '--sprt <elo0,elo1>', about: 'test until one of the two is shown' },
  { flag: '--elo-model <name>', about: 'normalized, logistic or BayesElo (default normalized)' },
  { flag: '--spsa <file>', about: 'tune: lines of name,start,min,max,c_end,r_end' },
  { flag: '--spsa-a <number>', about: 'A as a share of the iterations (default 0.1)' },
  { flag: '--spsa-alpha <number>', about: 'default 0.602' },
  { flag: '--spsa-gamma <number>', about: 'default 0.101' },
  { flag: '--priority <number>', about: 'higher goes first (default 0)' },
  { flag: '--throughput <percent>', about: 'its share of the fleet (default 100)' },
  { flag: '--arch-filter <expression>', about: 'only machines it matches, like avx2|bmi2' },
  { flag: '--compiler <name>', about: 'only g++ or clang++' },
  { flag: '--auto-purge', about: 'set the games of bad workers aside at the end' },
  { flag: '--no-adjudication', about: 'play every game to its end' },
  { flag: '--info <text>', about: 'what it is about' },
];

const plainFields = [
  ...['new_tag', 'base_tag', 'resolved_new', 'resolved_base', 'new_signature', 'base_signature'],
  ...['new_options', 'base_options', 'new_nets', 'base_nets', 'tests_repo', 'tc', 'new_tc'],
  ...['book', 'book_depth', 'threads', 'num_games', 'priority', 'throughput', 'arch_filter'],
  ...['compiler', 'auto_purge', 'info'],
];

/** The fields that flags name; what they leave out is absent. */
export function submissionOf(flags: Flags): Record<string, unknown> {
  const given = plainFields.flatMap((field) => {
    const value = flags[field.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())];
    return value === undefined ? [] : [[field, value] as const];
  });
  return {
    ...Object.fromEntries(given),
    ...(flags.adjudication === false && { adjudication: false }),
    ...sprtOf(flags),
    ...spsaOf(flags),
  };
}

function sprtOf({ sprt, eloModel }: Flags): object {
  if (sprt === undefined) {
    if (eloModel !== undefined) throw new UsageError('--elo-model: is of use with --sprt only');
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
  throw new UsageError('--spsa: is needed where --spsa-a, --spsa-alpha or --spsa-gamma is given');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--spsa: cannot be read: ${(error as Error).message}`);
  }
}
