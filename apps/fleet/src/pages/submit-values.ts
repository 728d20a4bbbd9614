import { officialRepo } from '../operations/submission.ts';
import { presets } from '../operations/submission-source.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { Run } from '../world/run.ts';
import type { PageContext } from './pages.ts';
import type { Visit } from './visit.ts';

const defaultBook = 'UHO_Lichess_4852_v1.epd';
/** Pairs of bounds that the form offers. */
export const bounds: readonly string[] = ['0,2', '0.5,2.5', '-1.75,0.25', 'custom'];

/** Fields of the form by the names that operations have for them. */
export const fieldNames = {
  tests_repo: 'tests-repo',
  new_tag: 'test-branch',
  base_tag: 'base-branch',
  new_signature: 'test-signature',
  base_signature: 'base-signature',
  resolved_new: 'resolved_new',
  resolved_base: 'resolved_base',
  new_nets: 'new-nets',
  base_nets: 'base-nets',
  msg_new: 'msg_new',
  msg_base: 'msg_base',
  new_options: 'new-options',
  base_options: 'base-options',
  info: 'run-info',
  threads: 'threads',
  tc: 'tc',
  priority: 'priority',
  throughput: 'throughput',
  book: 'book',
  book_depth: 'book-depth',
  num_games: 'num-games',
} as const;
type FieldName = keyof typeof fieldNames;

/** The run that a form asks for, as the operation takes it; empty fields are left out. */
export function submissionOf(form: QueryTexts): object {
  const given = (name: string) => form[name]?.trim() || undefined;
  const isTicked = (name: string) => form[name] !== undefined;
  const [low, high] = (given('bounds') ?? 'custom').split(',');
  const isCustom = low === 'custom' || high === undefined;
  const rule = form.stop_rule ?? 'sprt';
  const plain = Object.entries(fieldNames).map(([name, field]) => [name, given(field)]);
  const run = {
    ...(Object.fromEntries(plain) as Record<FieldName, string | undefined>),
    ...(rule === 'spsa' && { base_signature: given('test-signature') }),
    ...(rule === 'sprt' && { num_games: undefined }),
    rescheduled_from: given('rescheduled_from'),
    new_tc: isTicked('odds') ? given('new_tc') : undefined,
    arch_filter: isTicked('checkbox-arch-filter') ? given('arch-filter') : undefined,
    compiler: isTicked('checkbox-compiler') ? given('compiler') : undefined,
    auto_purge: isTicked('auto-purge'),
    adjudication: !isTicked('adjudication'),
    sprt:
      rule !== 'sprt'
        ? undefined
        : {
            elo0: isCustom ? given('sprt_elo0') : low,
            elo1: isCustom ? given('sprt_elo1') : high,
            elo_model: given('elo_model'),
          },
    spsa:
      rule !== 'spsa'
        ? undefined
        : {
            A: given('spsa_A'),
            alpha: given('spsa_alpha'),
            gamma: given('spsa_gamma'),
            algorithm: given('spsa_algorithm'),
            raw_params: given('spsa_raw_params')?.replaceAll('\r', ''),
          },
  };
  return withoutAbsent(run);
}

function withoutAbsent(object: object): object {
  const entries = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([name, value]) => [
      name,
      typeof value === 'object' ? withoutAbsent(value) : value,
    ]),
  );
}

/** Values of an empty form, by a preset. */
export function startValues({ files }: PageContext, { person }: Visit, name = 'STC'): QueryTexts {
  const preset = presets.get(name) ?? presets.get('STC');
  const books = [...files.books.books.keys()];
  const { sprt } = preset ?? {};
  return {
    'tests-repo': person?.testsRepo || officialRepo,
    'base-branch': 'master',
    'new-options': preset?.new_options,
    'base-options': preset?.base_options,
    tc: preset?.tc,
    threads: String(preset?.threads ?? 1),
    throughput: String(preset?.throughput ?? 100),
    priority: '0',
    book: books.includes(defaultBook) ? defaultBook : (books[0] ?? ''),
    'book-depth': '8',
    stop_rule: sprt === undefined ? 'games' : 'sprt',
    'num-games': String(preset?.num_games ?? 60_000),
    bounds: sprt === undefined ? '0,2' : `${sprt.elo0},${sprt.elo1}`,
    elo_model: 'normalized',
    sprt_elo0: '0',
    sprt_elo1: '2',
    spsa_A: '0.1',
    spsa_alpha: '0.602',
    spsa_gamma: '0.101',
  };
}

/** The values of a run that is repeated. */
export function valuesOf({ args, id }: Run): QueryTexts {
  const { sprt, spsa } = args;
  const both = sprt === undefined ? '0,2' : `${sprt.elo0},${sprt.elo1}`;
  const raw = spsa?.params.map(({ name, start, min, max, c_end, r_end }) =>
    [name, start, min, max, c_end, r_end].join(','),
  );
  const plain = Object.entries(fieldNames).map(([name, field]) => {
    return [field, [args[name as FieldName]].flat().join(', ')];
  });
  return {
    ...Object.fromEntries(plain),
    rescheduled_from: id,
    ...(args.new_tc !== args.tc && { odds: 'on', new_tc: args.new_tc }),
    ...(args.arch_filter !== undefined && {
      'checkbox-arch-filter': 'on',
      'arch-filter': args.arch_filter,
    }),
    ...(args.compiler !== undefined && { 'checkbox-compiler': 'on', compiler: args.compiler }),
    ...(args.auto_purge && { 'auto-purge': 'on' }),
    ...(!args.adjudication && { adjudication: 'on' }),
    stop_rule: spsa === undefined ? (sprt === undefined ? 'games' : 'sprt') : 'spsa',
    bounds: bounds.includes(both) ? both : 'custom',
    elo_model: sprt?.elo_model ?? 'normalized',
    sprt_elo0: String(sprt?.elo0 ?? 0),
    sprt_elo1: String(sprt?.elo1 ?? 2),
    spsa_A: '0.1',
    spsa_alpha: String(spsa?.alpha ?? 0.602),
    spsa_gamma: String(spsa?.gamma ?? 0.101),
    spsa_raw_params: raw?.join('\n') ?? '',
  };
}
