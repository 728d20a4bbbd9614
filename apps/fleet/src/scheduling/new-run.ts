import type { RunArgs, RunRecord } from './run-record.ts';
import { zeroStats } from './stats.ts';

export interface NewRunOptions {
  /** 24 hexadecimal digits, in lower case. */
  readonly id: string;
  readonly args: RunArgs;
  /** UNIX milliseconds. */
  readonly now: number;
  /** The run that this one repeats. */
  readonly rescheduledFrom?: string | undefined;
}

const schemaVersion = 24;

/** The record of a run that nobody has approved or played yet. */
export function newRunRecord({ id, args, now, rescheduledFrom }: NewRunOptions): RunRecord {
  return {
    _id: id,
    version: schemaVersion,
    start_time: now,
    last_updated: now,
    tc_base: Number(/^\d+(\.\d+)?/.exec(args.tc)?.[0] ?? 0),
    ...(rescheduledFrom !== undefined && { rescheduled_from: rescheduledFrom }),
    approved: false,
    approver: '',
    finished: false,
    deleted: false,
    failed: false,
    failures: 0,
    is_green: false,
    is_yellow: false,
    workers: 0,
    cores: 0,
    committed_games: 0,
    total_games: 0,
    results: zeroStats(),
    nps: 0,
    games_per_minute: 0,
    args,
  };
}
