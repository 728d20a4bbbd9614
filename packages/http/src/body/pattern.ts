import { check } from 'spillway/internal';

/** Steps of one match at most: about a tenth of a second in the worst case. */
const stepsMax = 10_000_000;
const textLengthMax = 1_000;
/** A pattern that bears only shorter texts than this is refused. */
const textLengthMin = 32;

/** A pattern as a validator uses it. */
export interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

/**
 * A pattern that is tried on texts of strangers. V8 goes back and tries again, so the number of its
 * choices is bounded: a group that is repeated may contain neither a choice nor a repetition, and
 * texts may be as long as the other repetitions of the pattern bear; a longer one does not match. A
 * pattern that bears no text of some length is refused when its route is declared.
 */
export function boundedPattern(source: string, flags: string): Pattern {
  const lengthMax = longestText(source);
  const rule = 'free of choices and repetitions inside repetitions, and of too many of them';
  check(lengthMax >= textLengthMin, 'pattern', rule, source);
  const expression = new RegExp(source, flags);
  return {
    test: (text) => text.length <= lengthMax && expression.test(text),
    // The compiler takes two patterns of the same text for the same pattern.
    toString: () => String(expression),
  };
}

interface Group {
  /** Alternatives in it, from 1. */
  choices: number;
  /** Something in it may match in more than one way. */
  isVaried: boolean;
}

/** The longest text that takes no more than `stepsMax`; 0 for a pattern without such a bound. */
function longestText(source: string): number {
  let repetitions = 0;
  let choices = 1;
  const groups: Group[] = [{ choices: 1, isVaried: false }];
  for (let at = 0; at < source.length; ) {
    const character = source[at] as string;
    let closed: Group | undefined;
    const inner = groups.at(-1) as Group;
    if (character === '\\' && /^\\[1-9k]/.test(source.slice(at, at + 2))) return 0;
    if (character === '|') {
      inner.choices += 1;
      inner.isVaried = true;
    } else if (character === '(') {
      groups.push({ choices: 1, isVaried: false });
    } else if (character === ')') {
      closed = groups.pop() as Group;
      choices *= closed.choices;
    }
    at = endOfAtom(source, at);
    if (character === '(' || character === '|') continue;
    const outer = groups.at(-1) ?? inner;
    const quantifier = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(source.slice(at));
    if (closed?.isVaried) outer.isVaried = true;
    if (quantifier === null) continue;
    const [text, least, comma, most] = quantifier;
    at += text.length;
    const isOptional = text.startsWith('?') || (least === '0' && most === '1');
    const isFixed = least !== undefined && comma === '';
    if (closed?.isVaried && !isOptional) return 0;
    if (isFixed) continue;
    outer.isVaried = true;
    if (isOptional) choices *= 2;
    else repetitions += 1;
  }
  choices *= (groups[0] as Group).choices;
  return lengthFor(repetitions, choices);
}

/** The place after a character, an escape or a class in brackets. */
function endOfAtom(source: string, at: number): number {
  const [atom = ''] = /^(?:\\.|\[(?:\\.|[^\]\\])*\]|\(\?(?:[:=!]|<[=!]|<\w+>)|.)/s.exec(
    source.slice(at),
  ) as RegExpExecArray;
  return at + atom.length;
}

/** Places for n repetitions in a text of length L: L to the power of n, by n factorial. */
function lengthFor(repetitions: number, choices: number): number {
  if (repetitions === 0) return choices <= stepsMax ? textLengthMax : 0;
  let orders = 1;
  for (let n = 2; n <= repetitions; n += 1) orders *= n;
  const length = Math.floor(((stepsMax * orders) / choices) ** (1 / repetitions));
  return Math.min(textLengthMax, length);
}
