/** A value that SQLite can hold. An integer is a bigint only where a number would be inexact. */
export type SqlValue = null | number | bigint | string | Uint8Array;

/** One statement, with `?` for each parameter. */
export interface SqlStatement {
  readonly sql: string;
  readonly parameters: readonly SqlValue[];
}

/** The statements of one transaction. */
export type SqlStatements = readonly SqlStatement[];

/** The result of one statement. */
export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, SqlValue>>[];
  /** Rows that the statement inserted, updated or deleted. */
  readonly changes: number;
  /** Row id of the last insert; 0 for a statement that gives rows. */
  readonly lastInsertRowid: number | bigint;
}

/** The data that a thread needs to open its own connection. */
export interface SqliteStart {
  readonly path: string;
  readonly role: 'writer' | 'reader' | 'checkpointer';
  /** The longest wait of the connection for other processes, in milliseconds. */
  readonly busyMs: number;
}

/** A request to a thread, which answers each one, in order, with its outcomes. */
export interface SqliteRequest {
  readonly type:
    | ('open' | 'close' | 'checkpoint')
    | ('group' | 'read')
    | ('begin' | 'run' | 'commit' | 'rollback');
  /** The transactions to run; empty where there are none. */
  readonly transactions: readonly SqlStatements[];
}

/** The parts of an error that can be sent. */
export interface SqliteFailure {
  readonly message: string;
  readonly code: string;
  /** SQLite's extended result code; 0 if the error is not SQLite's. */
  readonly errcode: number;
  /** The database file. */
  readonly path: string;
  readonly sql: string | undefined;
  /** True if the commit failed, and not a statement before it. */
  readonly isCommit: boolean;
}

/** The end of one transaction. */
export type SqliteOutcome =
  | { readonly results: readonly SqlResult[] }
  | { readonly failure: SqliteFailure };

/** Transactions as one flat list. A message of objects costs four times as much on both sides. */
export interface PackedTransactions {
  /** The text of each statement, once. */
  readonly texts: readonly string[];
  /** For each transaction its length; for each statement its text, parameter count and values. */
  readonly parts: readonly SqlValue[];
}

type OutcomePart = SqlValue | SqlResult['rows'] | SqliteFailure;

/** For each outcome its length and results, or -1 and the failure. */
export type PackedOutcomes = readonly OutcomePart[];

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
  const parts: OutcomePart[] = [];
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
      const changes = parts[at + 1] as number;
      const lastInsertRowid = parts[at + 2] as number | bigint;
      results.push({ rows, changes, lastInsertRowid });
    }
    outcomes.push({ results });
  }
  return outcomes;
}
