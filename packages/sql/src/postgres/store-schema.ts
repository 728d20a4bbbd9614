import type { Migration } from '../migrate.ts';

/** How many expired records one call removes at most. */
const purgeMax = 100;

/**
 * Commits take turns by locking the one row of the state: so versions grow in the order in which
 * commits become visible, no two of them can wait for each other, and nothing changes between
 * check and write. The row stays locked for one write to disk, hence many commits per call.
 * Its time never goes back, whatever the server's clock does.
 */
const commitFunction = `
create function spillway_store_commit(
  ends integer[], names text[], if_versions bigint[], new_values text[], ttls double precision[],
  is_check boolean[]
) returns table (now double precision, version bigint) language plpgsql as $body$
declare
  at integer := 1;
  last integer;
  found bigint;
  state spillway_store_state;
begin
  select * into strict state from spillway_store_state for update;
  foreach last in array ends loop
    state.now := greatest(
      state.now, extract(epoch from clock_timestamp())::double precision * 1000);
    now := state.now;
    version := 0;
    for i in at..last loop
      continue when if_versions[i] is null;
      select s.version into found from spillway_store s
        where s.name = names[i] and (s.expires_at is null or s.expires_at > now);
      if coalesce(found, 0) <> if_versions[i] then
        version := null;
        exit;
      end if;
    end loop;
    if version is not null then
      state.version := state.version + 1;
      version := state.version;
      for i in at..last loop
        continue when is_check[i];
        if new_values[i] is null then
          delete from spillway_store s where s.name = names[i];
        else
          insert into spillway_store as s (name, value, version, expires_at)
            values (names[i], new_values[i], spillway_store_commit.version, now + ttls[i])
            on conflict (name) do update set value = excluded.value,
              version = excluded.version, expires_at = excluded.expires_at;
        end if;
      end loop;
    end if;
    return next;
    at := last + 1;
  end loop;
  update spillway_store_state s set now = state.now, version = state.version;
  delete from spillway_store s where s.name in (
    select e.name from spillway_store e where e.expires_at <= now
      order by e.expires_at limit ${purgeMax});
end
$body$`;

/** The tables and functions that {@link PostgresStore} needs. */
export const storeMigrations: readonly Migration[] = [
  {
    number: 1,
    name: 'records',
    statements: [
      'create table spillway_store (name text collate "C" primary key, value text not null, ' +
        'version bigint not null, expires_at double precision)',
      'create index spillway_store_expiry on spillway_store (expires_at) ' +
        'where expires_at is not null',
      'create table spillway_store_state ' +
        '(now double precision not null, version bigint not null)',
      'insert into spillway_store_state values (0, 0)',
      commitFunction,
    ],
  },
];

/** The clock is read once, and one statement sees one moment. */
const clock =
  'with clock as materialized ' +
  '(select greatest(now, extract(epoch from clock_timestamp())::double precision * 1000) as now ' +
  'from spillway_store_state) ';

export const readSql: string =
  `${clock} select clock.now, s.value, s.version, s.expires_at from clock ` +
  'left join unnest($1::text[]) with ordinality as wanted (name, at) on true ' +
  'left join spillway_store s on s.name = wanted.name ' +
  'and (s.expires_at is null or s.expires_at > clock.now) order by wanted.at';

export const listSql: string =
  `${clock} select s.name, s.value, s.version, s.expires_at from clock, spillway_store s ` +
  'where s.name ^@ $1 and s.name > $3 and (s.expires_at is null or s.expires_at > clock.now) ' +
  'order by s.name limit $2';

export const commitSql: string =
  'select now, version from spillway_store_commit($1, $2, $3, $4, $5, $6)';
