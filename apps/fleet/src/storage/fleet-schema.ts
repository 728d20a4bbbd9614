/** The tables of the fleet; `record` columns hold JSON. */
export interface FleetSchema {
  readonly runs: RunRow;
  readonly tasks: TaskRow;
  readonly bad_tasks: TaskRow;
  readonly users: UserRow;
  readonly actions: ActionRow;
  readonly blocked_workers: BlockedWorkerRow;
  readonly pgns: PgnRow;
  readonly nns: NetRow;
  /** An entry is JSON. */
  readonly books: { readonly name: string; readonly entry: string };
  readonly primary_instance: { readonly id: number; readonly fence: number };
  readonly contributors: ContributorRow;
  readonly top_month: ContributorRow;
  readonly deltas: DeltaRow;
  readonly documents: { readonly name: string; readonly value: string };
}

export interface RunRow {
  readonly id: string;
  readonly username: string;
  readonly start_time: number;
  readonly last_updated: number;
  readonly tc_base: number;
  readonly finished: number;
  readonly deleted: number;
  readonly is_green: number;
  readonly is_yellow: number;
  /** Without the history of a tuning. */
  readonly record: string;
  /** JSON; it is long and rarely grows, so it is not written with every result. */
  readonly param_history: string | null;
}

/** Of a bad task, `id` is its place in the list of bad tasks. */
export interface TaskRow {
  readonly run_id: string;
  readonly id: number;
  readonly record: string;
}

export interface UserRow {
  readonly username: string;
  readonly password_hash: string;
  readonly registration_time: number;
  readonly pending: number;
  readonly blocked: number;
  readonly email: string;
  /** A JSON list of strings. */
  readonly groups: string;
  readonly tests_repo: string;
  readonly machine_limit: number;
}

export interface ActionRow {
  readonly id: string;
  /** UNIX seconds, with fractions. */
  readonly time: number;
  readonly action: string;
  readonly username: string;
  readonly run_id: string | null;
  readonly run: string | null;
  readonly task_id: number | null;
  readonly worker: string | null;
  readonly message: string | null;
  readonly user: string | null;
  readonly nn: string | null;
}

export interface BlockedWorkerRow {
  readonly worker_name: string;
  readonly message: string;
  readonly last_updated: number;
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

/** Counted contributions to a finished run. */
export interface DeltaRow {
  readonly run_id: string;
  readonly start_time: number;
  /** The run's, when it was counted. */
  readonly last_updated: number;
  /** Number of bad tasks at that time. */
  readonly bad_tasks: number;
  /** JSON of contributions by user. */
  readonly counted: string;
}

/** Contribution of a user; `record` is JSON of the rest. */
export interface ContributorRow {
  readonly username: string;
  readonly cpu_hours: number;
  readonly record: string;
}
