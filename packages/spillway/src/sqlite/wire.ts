/** What SQLite can hold. An integer comes back as a bigint only where a number would be wrong. */
export type SqlValue = null | number | bigint | string | Uint8Array;

/** One statement, with `?` where its parameters go. */
export interface SqlStatement {
  readonly sql: string;
  readonly parameters: readonly SqlValue[];
}

/** What is done as a whole, or not at all. */
export type SqlStatements = readonly SqlStatement[];

/** What one statement gave. */
export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, SqlValue>>[];
  /** How many rows it inserted, updated or deleted. */
  readonly changes: number;
  readonly lastInsertRowid: number | bigint;
}

/** What a thread needs to open its own connection. */
export interface SqliteStart {
  readonly path: string;
  readonly role: 'writer' | 'reader' | 'tidier';
  readonly busyMsMax: number;
}

/** What the file asks of a thread; each is answered, in order, by its outcomes. */
export interface ToSqlite {
  readonly type:
    | ('open' | 'close' | 'tidy')
    | ('group' | 'read')
    | ('begin' | 'run' | 'commit' | 'rollback');
  /** What to run; empty where there is nothing. */
  readonly transactions: readonly SqlStatements[];
}

/** An error, as far as it can be sent. */
export interface SqliteFailure {
  readonly message: string;
  readonly code: string;
  /** The extended result code of SQLite; 0 if the error is not SQLite's. */
  readonly errcode: number;
  readonly sql: string | undefined;
  /** True if it came when the transaction was being committed. */
  readonly isCommit: boolean;
}

export type SqliteOutcome =
  | { readonly results: readonly SqlResult[] }
  | { readonly failure: SqliteFailure };
