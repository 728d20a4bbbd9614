import { runInNewContext } from 'node:vm';
import { architectures } from '../protocol/architectures.ts';

/** Which workers a run lets in by their processor. */
export interface ArchFilter {
  /** Undefined lets all in. */
  readonly accepted: ReadonlySet<string> | undefined;
  /** Why the filter could not be used, if so: then it lets in whom it was not tried on. */
  readonly problem?: string;
}

const matchMsMax = 100;
const triesMax = 3;
const everyone: readonly string[] = [...architectures, 'unknown'];
const attempt = `
  const filter = new RegExp(expression);
  for (const name of everyone) if (!filter.test(name)) refused.push(name);
`;

/**
 * Tries a regular expression on every architecture there is, once: requests then only look up.
 * It comes from a person, so it runs where it can be stopped.
 */
export function archFilter(expression: string | undefined): ArchFilter {
  if (expression === undefined) return { accepted: undefined };
  let found = tried(expression);
  // On a busy machine time passes without any of it being spent on the filter.
  for (let again = 1; again < triesMax && found.problem !== undefined; again += 1) {
    found = tried(expression);
  }
  return found;
}

function tried(expression: string): ArchFilter {
  const refused: string[] = [];
  const accepted = () => new Set(everyone).difference(new Set(refused));
  try {
    runInNewContext(attempt, { expression, everyone, refused }, { timeout: matchMsMax });
    return { accepted: accepted() };
  } catch (error) {
    const why = String((error as { message?: unknown }).message);
    return { accepted: accepted(), problem: `arch_filter ${expression}: ${why}` };
  }
}
