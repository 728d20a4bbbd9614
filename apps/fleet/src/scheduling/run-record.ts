import type { StoredWorkerInfo } from '../protocol/worker-info.ts';
import type { ResidualColor } from '../statistics/residuals.ts';
import type { Sprt } from '../statistics/sprt.ts';
import type { Spsa } from '../statistics/spsa.ts';
import type { Stats } from './stats.ts';

/** What a run tests and how, as workers get it. */
export interface RunArgs {
  readonly base_tag: string;
  readonly new_tag: string;
  readonly msg_base: string;
  readonly msg_new: string;
  info: string;
  readonly base_nets: readonly string[];
  readonly new_nets: readonly string[];
  num_games: number;
  readonly tc: string;
  readonly new_tc: string;
  readonly book: string;
  readonly book_depth: string;
  readonly threads: number;
  readonly resolved_base: string;
  readonly resolved_new: string;
  readonly base_options: string;
  readonly new_options: string;
  readonly base_signature: string;
  readonly new_signature: string;
  readonly username: string;
  readonly tests_repo: string;
  readonly master_repo?: string;
  auto_purge: boolean;
  throughput: number;
  itp: number;
  priority: number;
  readonly adjudication: boolean;
  readonly arch_filter?: string;
  readonly compiler?: string;
  readonly sprt?: Sprt;
  readonly spsa?: Spsa;
}

/** A run as it is stored, without its tasks; times are UNIX milliseconds. */
export interface RunRecord {
  readonly _id: string;
  readonly version: number;
  readonly start_time: number;
  last_updated: number;
  readonly tc_base: number;
  readonly rescheduled_from?: string;
  approved: boolean;
  approver: string;
  finished: boolean;
  deleted: boolean;
  failed: boolean;
  failures: number;
  is_green: boolean;
  is_yellow: boolean;
  workers: number;
  cores: number;
  committed_games: number;
  total_games: number;
  results: Stats;
  nps: number;
  games_per_minute: number;
  readonly args: RunArgs;
}

/** A task as it is stored; its place in the run's list is its id. */
export interface TaskRecord {
  readonly num_games: number;
  active: boolean;
  last_updated: number;
  readonly start: number;
  /** Replaced, never changed in place: replies may still hold the last one. */
  stats: Stats;
  worker_info: StoredWorkerInfo;
  bad?: true;
  spsa_params?: { readonly iter: number; readonly packed_flips: readonly number[] };
}

/** A task that was purged, with the results it had. */
export interface BadTaskRecord extends Readonly<Omit<TaskRecord, 'bad'>> {
  readonly task_id: number;
  readonly bad: true;
  readonly residual: number;
  readonly residual_color: ResidualColor;
}
