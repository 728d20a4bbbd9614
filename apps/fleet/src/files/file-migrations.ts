import type { Migration } from 'spillway-sql';

/** Times are UNIX milliseconds in `double precision`; truth values are 0 and 1. */
export const fileMigrations: readonly Migration[] = [
  {
    number: 10,
    name: 'nets',
    statements: [
      `create table nns (name text primary key, "user" text not null, downloads integer not null,
       is_master integer not null, first_date double precision, first_id text,
       last_date double precision, last_id text)`,
    ],
  },
  {
    number: 11,
    name: 'books',
    statements: ['create table books (name text primary key, entry text not null)'],
  },
];
