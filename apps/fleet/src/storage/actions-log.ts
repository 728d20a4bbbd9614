import type { Action } from '../world/records.ts';
import type { ActionRow } from './fleet-schema.ts';
import { objectId } from './rows.ts';

/** Any entry of the event log, those about users, nets and the server itself included. */
export interface LogEntry extends Omit<Action, 'action'> {
  readonly action:
    | Action['action']
    | 'system_event'
    | 'upload_nn'
    | 'new_book'
    | 'new_user'
    | 'modify_user'
    | 'block_user'
    | 'accept_user';
  readonly user?: string;
  readonly nn?: string;
}

/** An entry with an id of its own, so that it is there once however often it is written. */
export function actionRow(entry: LogEntry): ActionRow {
  return {
    id: objectId(entry.time * 1000),
    time: entry.time,
    action: entry.action,
    username: entry.username,
    run_id: entry.run_id ?? null,
    run: entry.run ?? null,
    task_id: entry.task_id ?? null,
    worker: entry.worker ?? null,
    message: entry.message === undefined ? null : withoutNul(entry.message),
    user: entry.user ?? null,
    nn: entry.nn ?? null,
  };
}

/** Postgres has no such character in texts. */
export function withoutNul(text: string): string {
  return text.replaceAll('\0', '');
}
