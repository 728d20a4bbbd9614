import type { Migration } from '../migrate.ts';

/** The one name for `LISTEN` and `NOTIFY`; the payload has the topic. */
export const notifyName = 'spillway_channel';

/** The table that {@link PostgresChannel} needs for messages too long for a notification. */
export const channelMigrations: readonly Migration[] = [
  {
    number: 1,
    name: 'parked messages',
    statements: [
      'create table spillway_channel (id bigint generated always as identity primary key, ' +
        'payload bytea not null, parked_at timestamptz not null default now())',
      'create index spillway_channel_age on spillway_channel (parked_at)',
    ],
  },
];

export const notifySql: string = `select pg_notify('${notifyName}', $1)`;

/** Parks the payload and tells of it in one transaction; removes what all have read long ago. */
export const parkSql: string =
  'with old as (delete from spillway_channel where id in (select id from spillway_channel ' +
  "where parked_at < now() - interval '1 minute' order by parked_at limit 100)), " +
  'parked as (insert into spillway_channel (payload) values ($2) returning id) ' +
  `select pg_notify('${notifyName}', $1 || id) from parked`;

export const unparkSql = 'select payload from spillway_channel where id = $1';
