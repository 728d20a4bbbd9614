/** Expired records that one call removes at most. */
const purgeMax = 100;

/** Removes some expired records. */
const purgeSql = `  delete from spillway_store s where s.name in (
    select e.name from spillway_store e where e.expires_at <= now
      order by e.expires_at limit ${purgeMax});`;

/** The channel of `LISTEN` and `NOTIFY` for the changes of one record. */
export const notifyPrefix = 'spillway_';

/**
 * Store time advances by the differences of the server's clock, from the last commit and from the
 * time that the caller saw last.
 */
const timeSql = `wall := extract(epoch from clock_timestamp())::double precision * 1000;
    state.now := greatest(state.now + greatest(0, wall - coalesce(state.wall, state.now)),
      seen + greatest(0, wall - seen_wall));
    state.wall := wall;`;

const tables: readonly string[] = [
  'create table spillway_store (name text collate "C" primary key, value text not null, ' +
    'version bigint not null, expires_at double precision)',
  'create index spillway_store_expiry on spillway_store (expires_at) ' +
    'where expires_at is not null',
  'create table spillway_store_state (now double precision not null, ' +
    'version bigint not null, wall double precision)',
  'insert into spillway_store_state values (0, 0)',
];

/**
 * Commits take turns by locking the one row of the state: so versions grow in the order in which
 * commits become visible, no two commits can deadlock, and nothing changes between check and
 * write. The row stays locked for one write to disk, so one call makes many commits. Versions are
 * microseconds of the server's clock and not a counter: a crash may undo a commit that did not wait
 * for the disk, and its version, which readers know, must not be given again. Each changed record
 * has a channel of its own, so that the server wakes only its watchers.
 */
const commit = `
create function spillway_store_commit(
  ends integer[], names text[], if_versions bigint[], new_values text[], ttls double precision[],
  is_check boolean[], seen double precision, seen_wall double precision, news text[] default null
) returns table (now double precision, version bigint, wall double precision)
language plpgsql as $body$
declare
  at integer := 1;
  last integer;
  found bigint;
  state spillway_store_state;
begin
  select * into strict state from spillway_store_state for update;
  foreach last in array ends loop
    ${timeSql}
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
      state.version := greatest(state.version + 1, (wall * 1000)::bigint);
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
        perform pg_notify('${notifyPrefix}' || md5(names[i]),
          coalesce(version || ' ' || news[i], ''));
      end loop;
    end if;
    return next;
    at := last + 1;
  end loop;
  update spillway_store_state s
    set now = state.now, version = state.version, wall = state.wall;
${purgeSql}
end
$body$`;

/**
 * A function, since the server keeps its plan: it takes half as long as the same statement, which
 * is planned each time (2026-11), and a pooler in between cannot lose it. `stable`: it reads all
 * records as of the moment of its call.
 */
const read = `
create function spillway_store_read(
  seen double precision, seen_wall double precision, names text[]
) returns table (
  now double precision, wall double precision, value text, version bigint,
  expires_at double precision
) language plpgsql stable as $body$
declare
  state spillway_store_state;
begin
  select * into strict state from spillway_store_state;
  ${timeSql}
  now := state.now;
  return query select spillway_store_read.now, spillway_store_read.wall,
      s.value, s.version, s.expires_at
    from (select) one left join unnest(names) with ordinality as wanted (name, at) on true
    left join spillway_store s on s.name = wanted.name
      and (s.expires_at is null or s.expires_at > spillway_store_read.now)
    order by wanted.at;
end
$body$`;

/**
 * Makes decisions one after the other, while the lock on the state makes commits wait. A decision
 * with an unknown name, or about a record of another version, has no answer and changes nothing.
 */
const apply = `create function spillway_store_apply(
  names text[], decisions text[], arguments text[], seen double precision,
  seen_wall double precision
) returns table (now double precision, wall double precision, answer text)
language plpgsql as $body$
declare
  state spillway_store_state;
  value jsonb;
  decided record;
begin
  select * into strict state from spillway_store_state for update;
  for i in 1..cardinality(names) loop
    ${timeSql}
    now := state.now;
    select s.value::jsonb into value from spillway_store s
      where s.name = names[i] and (s.expires_at is null or s.expires_at > now);
    if decisions[i] = 'bucket/reserve' then
      select * into strict decided from spillway_bucket_reserve(value, arguments[i]::jsonb, now);
    elsif decisions[i] = 'bucket/slow' then
      select * into strict decided from spillway_bucket_slow(value, arguments[i]::jsonb, now);
    elsif decisions[i] = 'rate/charge'
      and coalesce(jsonb_typeof(value), 'array') = 'array' then
      select * into strict decided from spillway_rate_charge(value, arguments[i]::jsonb, now);
    elsif decisions[i] = 'breaker/settle' then
      select * into strict decided from spillway_breaker_settle(value, arguments[i]::jsonb, now);
    else
      select null::jsonb as answer, null::jsonb as next, null::double precision as ttl
        into decided;
    end if;
    if decided.next is not null then
      state.version := state.version + 1;
      insert into spillway_store as s (name, value, version, expires_at)
        values (names[i], decided.next::text, state.version, now + decided.ttl)
        on conflict (name) do update set value = excluded.value,
          version = excluded.version, expires_at = excluded.expires_at;
    end if;
    answer := decided.answer::text;
    return next;
  end loop;
  update spillway_store_state s set now = state.now, version = state.version, wall = state.wall;
${purgeSql}
end
$body$`;

/** The tables and functions of a store, beside those of `decisionStatements`. */
export const storeStatements: readonly string[] = [...tables, commit, read, apply];

/** Reads the clock once, in one statement; `$1` and `$2` are the times that were seen last. */
const clock = `with wall as materialized
    (select extract(epoch from clock_timestamp())::double precision * 1000 as wall),
  clock as materialized (select wall.wall, greatest(
    state.now + greatest(0, wall.wall - coalesce(state.wall, state.now)),
    $1::double precision + greatest(0, wall.wall - $2::double precision)) as now
    from spillway_store_state state, wall) `;

export const readSql: string =
  'select now, wall, value, version, expires_at from spillway_store_read($1, $2, $3)';

/** Bounds of the names, since Postgres before 15 finds no prefix by an index. */
export const listSql: string =
  `${clock} select clock.now, clock.wall, s.name, s.value, s.version, s.expires_at ` +
  'from clock, spillway_store s ' +
  'where s.name >= $3 and s.name <= $6 and s.name > $5 ' +
  'and (s.expires_at is null or s.expires_at > clock.now) ' +
  'order by s.name limit $4';

export const commitSql: string =
  'select now, version, wall from spillway_store_commit($1, $2, $3, $4, $5, $6, $7, $8, $9)';

/** The same, without waiting for the disk: a crash may undo it. */
const relaxed = "(select set_config('synchronous_commit', 'off', true)) as relaxed";
export const relaxedCommitSql: string = `${commitSql}, ${relaxed}`;

export const applySql: string =
  'select now, wall, answer from spillway_store_apply($1, $2, $3, $4, $5)';
