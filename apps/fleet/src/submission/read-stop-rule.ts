import type { FieldReader } from '../field-reader.ts';
import type { EloModel } from '../statistics/llr.ts';
import { newSprt, type Sprt } from '../statistics/sprt.ts';
import { newSpsa, type Spsa } from '../statistics/spsa.ts';

const models: readonly string[] = ['normalized', 'logistic', 'BayesElo'] satisfies EloModel[];
const eloMax = 10;
const eloGapMin = 0.5;
const paramsMax = 10_000;

/** The sequential test that the fields ask for. */
export function readSprt(reader: FieldReader, batch_size: number): Sprt {
  reader.only(['elo0', 'elo1', 'elo_model']);
  const bound = (name: string) =>
    reader.number(name, {
      rule: `a number from -${eloMax} to ${eloMax}`,
      holds: (value) => Math.abs(value) <= eloMax,
    });
  const before = reader.faults.length;
  const [elo0, elo1] = [bound('elo0'), bound('elo1')];
  if (reader.faults.length === before && elo1 < elo0 + eloGapMin) {
    reader.fault('elo1', `must be at least elo0 + ${eloGapMin}, got ${elo1} with elo0 ${elo0}`);
  }
  const elo_model = reader.text('elo_model', {
    rule: `one of ${models.join(', ')}`,
    holds: (value) => models.includes(value),
    absent: 'normalized',
  }) as EloModel;
  return newSprt({ elo0, elo1, elo_model, batch_size });
}

/** The tuning that the fields ask for. */
export function readSpsa(reader: FieldReader, numGames: number): Spsa | undefined {
  reader.only(['A', 'algorithm', 'alpha', 'gamma', 'raw_params']);
  reader.text('algorithm', {
    rule: 'classic',
    holds: (value) => value === 'classic',
    absent: 'classic',
  });
  const share = (name: string, absent: number) =>
    reader.number(name, {
      rule: 'a number above 0 and up to 1',
      holds: (value) => value > 0 && value <= 1,
      absent,
    });
  const [ratioA, alpha, gamma] = [share('A', 0.1), share('alpha', 0.602), share('gamma', 0.101)];
  const rawParams = reader.text('raw_params', {
    rule: `lines of name,start,min,max,c_end,r_end: from 1 to ${paramsMax}`,
    holds: (value) => value !== '' && value.split('\n').length <= paramsMax,
  });
  if (rawParams === '') return undefined;
  try {
    const spsa = newSpsa({ rawParams, numGames, ratioA, alpha, gamma });
    checkParams(reader, spsa);
    return spsa;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    reader.fault('raw_params', error.message.replace(/^spsa: /, ''));
    return undefined;
  }
}

function checkParams(reader: FieldReader, { params }: Spsa): void {
  const seen = new Set<string>();
  for (const { name, start, min, max } of params) {
    const complain = (message: string) => reader.fault('raw_params', `${name}: ${message}`);
    if (!/^[!-+\--~]{1,100}$/.test(name)) complain('a name must be ASCII without blanks');
    if (seen.has(name)) complain('must be given once');
    if (min > start || start > max) complain('start must be from min to max');
    seen.add(name);
  }
}
