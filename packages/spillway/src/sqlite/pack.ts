import type {
  SqliteFailure,
  SqliteOutcome,
  SqlResult,
  SqlStatement,
  SqlStatements,
  SqlValue,
} from './wire.ts';

type Part = SqlValue | SqlResult['rows'] | SqliteFailure;

/** Transactions as one flat list. A message of objects costs four times as much on both sides. */
export interface PackedTransactions {
  /** The text of each statement, once. */
  readonly texts: readonly string[];
  /** For each transaction its length; for each statement its text, parameter count and values. */
  readonly parts: readonly SqlValue[];
}

/** For each outcome its length and results, or -1 and the failure. */
export type PackedOutcomes = readonly Part[];

export function packTransactions(transactions: readonly SqlStatements[]): PackedTransactions {
  const texts = new Map<string, number>();
  const parts: SqlValue[] = [];
  for (const statements of transactions) {
    parts.push(statements.length);
    for (const { sql, parameters } of statements) {
      let text = texts.get(sql);
      if (text === undefined) {
        text = texts.size;
        texts.set(sql, text);
      }
      parts.push(text, parameters.length);
      for (const value of parameters) parts.push(value);
    }
  }
  return { texts: [...texts.keys()], parts };
}

export function unpackTransactions({ texts, parts }: PackedTransactions): SqlStatement[][] {
  const transactions: SqlStatement[][] = [];
  for (let at = 0; at < parts.length; ) {
    const statements: SqlStatement[] = [];
    for (let left = parts[at++] as number; left > 0; left -= 1) {
      const sql = texts[parts[at++] as number] as string;
      const end = (parts[at++] as number) + at;
      statements.push({ sql, parameters: parts.slice(at, end) });
      at = end;
    }
    transactions.push(statements);
  }
  return transactions;
}

export function packOutcomes(outcomes: readonly SqliteOutcome[]): PackedOutcomes {
  const parts: Part[] = [];
  for (const outcome of outcomes) {
    if ('failure' in outcome) parts.push(-1, outcome.failure);
    else {
      parts.push(outcome.results.length);
      for (const { rows, changes, lastInsertRowid } of outcome.results) {
        parts.push(rows.length === 0 ? null : rows, changes, lastInsertRowid);
      }
    }
  }
  return parts;
}

export function unpackOutcomes(parts: PackedOutcomes): SqliteOutcome[] {
  const outcomes: SqliteOutcome[] = [];
  for (let at = 0; at < parts.length; ) {
    const length = parts[at++] as number;
    if (length < 0) {
      outcomes.push({ failure: parts[at++] as SqliteFailure });
      continue;
    }
    const results: SqlResult[] = [];
    for (const end = at + 3 * length; at < end; at += 3) {
      const rows = (parts[at] ?? []) as SqlResult['rows'];
      const [changes, lastInsertRowid] = [
        parts[at + 1] as number,
        parts[at + 2] as number | bigint,
      ];
      results.push({ rows, changes, lastInsertRowid });
    }
    outcomes.push({ results });
  }
  return outcomes;
}
