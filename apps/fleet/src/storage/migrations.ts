import type { Migration } from 'spillway-sql';

/** Times are UNIX milliseconds in `double precision`; truth values are 0 and 1. */
const tables: readonly (readonly [name: string, ...statements: string[]])[] = [
  [
    'runs',
    `create table runs (id text primary key, username text not null, start_time double precision
       not null, last_updated double precision not null, tc_base double precision not null,
       finished integer not null, deleted integer not null, is_green integer not null,
       is_yellow integer not null, record text not null, param_history text)`,
    'create index runs_by_end on runs (finished, last_updated, id)',
    'create index runs_by_user on runs (username, last_updated, id)',
  ],
  [
    'tasks',
    `create table tasks (run_id text not null, id integer not null, record text not null,
       primary key (run_id, id))`,
  ],
  [
    'bad tasks',
    `create table bad_tasks (run_id text not null, id integer not null, record text not null,
       primary key (run_id, id))`,
  ],
  [
    'users',
    `create table users (username text primary key, password_hash text not null,
       registration_time double precision not null, pending integer not null, blocked integer
       not null, email text not null, groups text not null, tests_repo text not null,
       machine_limit integer not null)`,
  ],
  [
    'actions',
    `create table actions (id text primary key, time double precision not null, action text
       not null, username text not null, run_id text, run text, task_id integer, worker text,
       message text, "user" text, nn text)`,
    'create index actions_by_time on actions (time, id)',
    'create index actions_by_user on actions (username, time, id)',
    'create index actions_by_kind on actions (action, time, id)',
    'create index actions_by_run on actions (run_id, time, id)',
  ],
  [
    'blocked workers',
    `create table blocked_workers (worker_name text primary key, message text not null,
       last_updated double precision not null)`,
  ],
  [
    'games',
    `create table pgns (run_id text not null, task_id integer not null, size integer not null,
       stored_at double precision not null, sha256 text not null, primary key (run_id, task_id))`,
  ],
  [
    'primary instance',
    'create table primary_instance (id integer primary key, fence double precision not null)',
  ],
  [
    'contributors and documents',
    `create table contributors (username text primary key, cpu_hours double precision not null,
       record text not null)`,
    'create table documents (name text primary key, value text not null)',
  ],
  [
    'nets',
    `create table nns (name text primary key, "user" text not null, downloads integer not null,
       is_master integer not null, first_date double precision, first_id text,
       last_date double precision, last_id text)`,
  ],
  ['books', 'create table books (name text primary key, entry text not null)'],
  [
    'what contributors gave',
    `create table deltas (run_id text primary key, start_time double precision not null,
       last_updated double precision not null, bad_tasks integer not null, counted text not null)`,
    'create index deltas_by_start on deltas (start_time)',
    `create table top_month (username text primary key, cpu_hours double precision not null,
       record text not null)`,
  ],
];

/** Numbered by their order: new ones go to the end. */
export const fleetMigrations: readonly Migration[] = tables.map(([name, ...statements], at) => ({
  number: at + 1,
  name,
  statements,
}));
