import { createContext, Script } from 'node:vm';
import { safeRegex } from 'safe-regex2';
import { httpError } from 'spillway-http';
import type { ReaderArticle } from '../ranking/reader.ts';
import { clean } from '../storage/articles.ts';
import type { NewRule, ReaderRule } from '../storage/rules.ts';
import { wordsOf } from './duplicates.ts';

/** The effect of all rules on an article. */
export interface Verdict {
  readonly isMuted: boolean;
  /** The sum of all boosts. */
  readonly points: number;
}

type Judged = Pick<ReaderArticle, 'id' | 'title' | 'lead' | 'source'> &
  Partial<Pick<ReaderArticle, 'feedId' | 'author' | 'tags'>>;

/** The longest rule, and the part of an article that a pattern is tried on, in characters. */
export const ruleLengthMax = 200;
const textLengthMax = 800;
/** The time of one pattern for all new articles together, in milliseconds. */
const patternMsMax = 40;
/**
 * A pattern is given up when the runs that took longer have used this much processor time, in
 * milliseconds: on a busy machine a harmless pattern takes long too, but uses little.
 */
const overrunMsMax = 60;
/** Verdicts that are remembered of one pattern. */
const rememberedMax = 10_000;

/** The rule as it is stored; throws `INPUT_INVALID` with the reason if it is wrong. */
export function checkRule(rule: NewRule): NewRule {
  // Cleaned before it is checked: a pattern of nothing but a NUL would match everything.
  const value = clean(rule.value).trim();
  const isLong = value.length > ruleLengthMax;
  if (value === '' || isLong) throw refusal(`a rule has 1 to ${ruleLengthMax} characters`);
  if (rule.field === 'words' && wordsOf(value).length === 0) throw refusal('a rule needs a word');
  if (rule.field === 'pattern') compile(value);
  const isWithin = Number.isFinite(rule.points) && Math.abs(rule.points) <= 9;
  if (rule.kind === 'boost' && !(isWithin && rule.points !== 0)) {
    throw refusal('a boost adds from -9 to 9 points, and not 0');
  }
  const isSource = rule.field === 'source';
  const points = rule.kind === 'mute' ? 0 : rule.points;
  return { ...rule, value: isSource ? value.toLowerCase() : value, points };
}

function refusal(message: string, cause?: unknown): Error {
  return httpError('INPUT_INVALID', message, { cause });
}

function compile(source: string): RegExp {
  if (!safeRegex(source)) {
    throw refusal('a pattern must be whole and have no repetition inside a repetition');
  }
  try {
    return new RegExp(source, 'iu');
  } catch (cause) {
    throw refusal(`not a pattern: ${(cause as Error).message}`, cause);
  }
}

/** The compiled rules of one user. */
export class RuleSet {
  readonly #judges: readonly { readonly rule: ReaderRule; readonly judge: Judge }[];

  /** Patterns that the set before has tried are not tried again. */
  constructor(rules: readonly ReaderRule[], before?: RuleSet) {
    const old = before === undefined ? [] : before.#judges;
    this.#judges = rules.map((rule) => {
      const known = old.find((one) => isSame(one.rule, rule));
      return { rule, judge: known?.judge ?? judgeOf(rule) };
    });
  }

  /** The ids of rules whose pattern takes too long: they are not applied any more. */
  get tooSlow(): readonly string[] {
    return this.#judges.flatMap(({ rule, judge }) => (judge.isTooSlow ? [rule.id] : []));
  }

  /** The verdict on each article that any rule applies to. */
  verdicts(articles: readonly Judged[]): ReadonlyMap<string, Verdict> {
    const found = new Map<string, Verdict>();
    for (const { rule, judge } of this.#judges) {
      for (const id of judge.matches(articles)) {
        const { isMuted, points } = found.get(id) ?? { isMuted: false, points: 0 };
        const mutes = isMuted || rule.kind === 'mute';
        found.set(id, { isMuted: mutes, points: points + rule.points });
      }
    }
    return found;
  }
}

function isSame(one: ReaderRule, other: ReaderRule): boolean {
  return one.field === other.field && one.value === other.value;
}

interface Judge {
  readonly isTooSlow: boolean;
  /** The ids of the articles that it applies to. */
  matches(articles: readonly Judged[]): readonly string[];
}

function judgeOf({ field, value }: ReaderRule): Judge {
  if (field === 'pattern') return patternJudge(value);
  const applies = {
    source: ofSource(value),
    feed: ({ feedId }: Judged) => feedId === value,
    author: ({ author = '' }: Judged) => author.toLowerCase().includes(value.toLowerCase()),
    tag: ({ tags = [] }: Judged) => tags.some((tag) => tag.toLowerCase() === value.toLowerCase()),
    words: withWords(value),
  }[field];
  return {
    isTooSlow: false,
    matches: (articles) => articles.filter(applies).map(({ id }) => id),
  };
}

/** A judge of a pattern; a pattern that was stored without a check is never applied. */
function patternJudge(source: string): Judge {
  try {
    return new PatternJudge(compile(source));
  } catch {
    return { isTooSlow: true, matches: () => [] };
  }
}

/** A host and all below it. */
function ofSource(host: string): (article: Judged) => boolean {
  return ({ source }) => source === host || source.endsWith(`.${host}`);
}

function withWords(text: string): (article: Judged) => boolean {
  const wanted = wordsOf(text);
  return (article) => {
    const words = new Set(wordsOf(textOf(article)));
    return wanted.every((word) => words.has(word));
  };
}

function textOf({ title, lead }: Judged): string {
  return `${title}\n${lead}`.slice(0, textLengthMax);
}

const script = new Script('for (const text of texts) found.push(pattern.test(text))');

/**
 * Tries a pattern within a limit of time, since some that look harmless take for ever on a short
 * text: `(a|a)*b`.
 */
class PatternJudge implements Judge {
  readonly #pattern: RegExp;
  readonly #known = new Map<string, boolean>();
  #overrunMs = 0;

  constructor(pattern: RegExp) {
    this.#pattern = pattern;
  }

  get isTooSlow(): boolean {
    return this.#overrunMs >= overrunMsMax;
  }

  matches(articles: readonly Judged[]): readonly string[] {
    const fresh = articles.filter(({ id }) => !this.#known.has(id));
    if (fresh.length > 0 && !this.isTooSlow) this.#try(fresh);
    const matching = articles.filter(({ id }) => this.#known.get(id));
    if (this.#known.size > rememberedMax) this.#known.clear();
    return matching.map(({ id }) => id);
  }

  #try(articles: readonly Judged[]): void {
    const found: boolean[] = [];
    const texts = articles.map(textOf);
    const begun = process.threadCpuUsage();
    try {
      const context = createContext({ pattern: this.#pattern, texts, found });
      script.runInContext(context, { timeout: patternMsMax });
      for (const [index, { id }] of articles.entries()) this.#known.set(id, found[index] === true);
    } catch (error) {
      if (Object(error).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      const { user, system } = process.threadCpuUsage(begun);
      this.#overrunMs += (user + system) / 1_000;
    }
  }
}
