/** Says what is wrong with a value that is called `name`, or nothing. */
export type Rule = (value: unknown, name: string) => string | undefined;

/** The rules of an object's keys. */
export type Fields = Readonly<Record<string, Rule>>;

export interface ObjectRuleOptions {
  readonly required: Fields;
  /** None if absent. */
  readonly optional?: Fields | undefined;
  /** True if keys without a rule are let through; false if absent. */
  readonly open?: boolean | undefined;
  /** Rule over all keys together, applied once each is right. */
  readonly together?: Rule | undefined;
}

export const text: Rule = (value, name) =>
  typeof value === 'string' ? undefined : wrong(value, name, 'is not a string');

export const flag: Rule = (value, name) =>
  typeof value === 'boolean' ? undefined : wrong(value, name, 'is not a boolean');

/** Workers are written in Python, where true is the integer 1. */
export function integer(min: number): Rule {
  return (value, name) =>
    Number.isSafeInteger(unboxed(value)) && Number(value) >= min
      ? undefined
      : wrong(value, name, `is not an integer >= ${min}`);
}

export function number(min: number): Rule {
  return (value, name) =>
    Number.isFinite(unboxed(value)) && Number(value) >= min
      ? undefined
      : wrong(value, name, `is not a number >= ${min}`);
}

export function pattern(expression: RegExp, meaning: string): Rule {
  return (value, name) =>
    typeof value === 'string' && expression.test(value)
      ? undefined
      : wrong(value, name, `is not ${meaning}`);
}

export function oneOf(allowed: ReadonlySet<string>): Rule {
  return (value, name) =>
    typeof value === 'string' && allowed.has(value)
      ? undefined
      : wrong(value, name, `is not one of ${[...allowed].join(', ')}`);
}

export function either(first: Rule, second: Rule): Rule {
  return (value, name) => {
    const problem = first(value, name);
    return problem === undefined || second(value, name) === undefined ? undefined : problem;
  };
}

export function list(rule: Rule, length: number): Rule {
  return (value, name) => {
    if (!Array.isArray(value) || value.length !== length) {
      return wrong(value, name, `is not a list of ${length}`);
    }
    return firstProblem(value.map((item, at) => rule(item, `${name}[${at}]`)));
  };
}

export function object(options: ObjectRuleOptions): Rule {
  const { required, optional = {}, open = false, together } = options;
  const rules = new Map(Object.entries({ ...required, ...optional }));
  return (value, name) => {
    if (!isObject(value)) return wrong(value, name, 'is not a dict');
    const missing = Object.keys(required).find((key) => !Object.hasOwn(value, key));
    if (missing !== undefined) return `${name}['${missing}'] is missing`;
    for (const [key, item] of Object.entries(value)) {
      const rule = rules.get(key);
      if (rule === undefined && open) continue;
      const problem =
        rule === undefined ? `${at(name, key)} is not in the schema` : rule(item, at(name, key));
      if (problem !== undefined) return problem;
    }
    return together?.(value, name);
  };
}

/** For errors of what was received: names it, and shows it if it is not too long. */
export function wrong(value: unknown, name: string, complaint: string): string {
  return `${name} (value:${cut(shown(value))}) ${complaint}`;
}

/** Writes a value as JSON, or `...` if it is nested too deep for that. */
function shown(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'undefined';
  } catch {
    return '...';
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unboxed(value: unknown): unknown {
  return typeof value === 'boolean' ? Number(value) : value;
}

function at(name: string, key: string): string {
  return `${name}['${cut(key)}']`;
}

function cut(shown: string): string {
  return shown.length > 80 ? `${shown.slice(0, 80)}...` : shown;
}

function firstProblem(problems: readonly (string | undefined)[]): string | undefined {
  return problems.find((problem) => problem !== undefined);
}

type PatternName =
  | 'book'
  | 'githubRepo'
  | 'longWorkerName'
  | 'netName'
  | 'optionList'
  | 'runId'
  | 'shortWorkerName'
  | 'signature'
  | 'uniqueKey'
  | 'username';

/** Whole strings that a field may hold; `timeControlPattern` is kept with time controls. */
export const patterns: Readonly<Record<PatternName, RegExp>> = {
  book: /\.(epd|pgn)$/,
  githubRepo: /^https:\/\/(www\.)?github\.com\/[^/\s]+\/[^/\s]+$/,
  longWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}-[a-f0-9]{4}\*?$/,
  netName: /^nn-[a-f0-9]{12}\.nnue$/,
  optionList: /^([!-<>-~]+=[!-<>-~]+( [!-<>-~]+=[!-<>-~]+)*)?$/,
  runId: /^[0-9a-fA-F]{24}$/,
  shortWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}$/,
  signature: /^[1-9]\d*$/,
  uniqueKey: /^[0-9a-zA-Z]{2,8}(-[a-f0-9]{4}){3}-[a-f0-9]{12}$/,
  username: /^[A-Za-z0-9]{2,}$/,
};

/** Processors that a worker may name; one that does not know its own says `unknown`. */
export const architectures: readonly string[] = [
  'apple-silicon',
  'armv7',
  'armv7-neon',
  'armv8',
  'armv8-dotprod',
  'e2k',
  'general-32',
  'general-64',
  'loongarch64',
  'loongarch64-lasx',
  'loongarch64-lsx',
  'ppc-32',
  'ppc-64',
  'ppc-64-altivec',
  'ppc-64-vsx',
  'riscv64',
  'x86-32',
  'x86-32-sse2',
  'x86-32-sse41-popcnt',
  'x86-64',
  'x86-64-avx2',
  'x86-64-avx512',
  'x86-64-avxvnni',
  'x86-64-bmi2',
  'x86-64-sse3-popcnt',
  'x86-64-sse41-popcnt',
  'x86-64-ssse3',
  'x86-64-vnni512',
  'x86-64-avx512icl',
];
