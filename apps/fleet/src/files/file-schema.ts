/** The tables about files; the files themselves lie in folders. */
export interface FileSchema {
  readonly pgns: PgnRow;
  readonly nns: NetRow;
  readonly books: BookRow;
}

export interface PgnRow {
  readonly run_id: string;
  readonly task_id: number;
  /** In bytes, as stored. */
  readonly size: number;
  /** UNIX milliseconds. */
  readonly stored_at: number;
  /** Of the stored bytes, in hexadecimal; names the file. */
  readonly sha256: string;
}

export interface NetRow {
  readonly name: string;
  readonly user: string;
  readonly downloads: number;
  readonly is_master: number;
  /** UNIX milliseconds; null until a run has used it. */
  readonly first_date: number | null;
  readonly first_id: string | null;
  readonly last_date: number | null;
  readonly last_id: string | null;
}

export interface BookRow {
  readonly name: string;
  /** JSON of a book's entry. */
  readonly entry: string;
}
