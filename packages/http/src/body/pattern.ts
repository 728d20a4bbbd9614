import { RE2JS } from 're2js';
import { check } from 'spillway/internal';

/** A longer text does not match: 64 Ki characters take up to 25 ms (2026-11). */
const textLengthMax = 65_536;

/** A pattern as a validator uses it. */
export interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

/**
 * A pattern that is tried on texts of strangers, by an engine whose time is linear in the text: V8
 * goes back and tries again. Its syntax is that of RE2; any other pattern is refused when its route
 * is declared.
 */
export function linearPattern(source: string): Pattern {
  const expression = compiled(source);
  const rule = 'free of lookarounds, back references and repetitions over 1,000';
  check(expression !== undefined, 'pattern', rule, source);
  return {
    test: (text) => text.length <= textLengthMax && expression.test(text),
    // The compiler takes two patterns of the same text for the same pattern.
    toString: () => source,
  };
}

function compiled(source: string): RE2JS | undefined {
  // A named back reference would be taken for the letters that it is written with.
  if (/(^|[^\\])(\\\\)*\\k/.test(source)) return undefined;
  try {
    return RE2JS.compile(RE2JS.translateRegExp(source));
  } catch {
    return undefined;
  }
}
