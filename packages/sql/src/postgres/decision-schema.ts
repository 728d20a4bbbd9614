import type { Migration } from '../migrate.ts';
import { purgeSql, timeSql } from './store-schema.ts';

/** The records of buckets, with the names of their JSON. */
const types = [
  `create type spillway_slots as (
    next double precision, "ratePerSecond" double precision, since double precision,
    "recoverMs" double precision, "pausedUntil" double precision, halvings double precision,
    "roundEndsAt" double precision, "roundRate" double precision,
    "roundRefused" double precision, "isHalved" boolean, round double precision,
    given double precision, "givenBefore" double precision, "countedFrom" double precision)`,
  `create type spillway_bucket_rule as (
    "ratePerSecond" double precision, burst double precision, "recoverMs" double precision,
    "roundMs" double precision)`,
];

/** The arithmetic of slots, as in `slots.ts` of spillway. */
const slots = [
  `create function spillway_slot_life(r spillway_bucket_rule) returns double precision
    language sql immutable as $body$
    select ((r.burst - (r."ratePerSecond" - floor(r."ratePerSecond"))) / r."ratePerSecond") * 1000
    $body$`,
  `create function spillway_slots_of(
    value jsonb, r spillway_bucket_rule, now double precision
  ) returns spillway_slots language plpgsql immutable as $body$
begin
  if value is not null then return jsonb_populate_record(null::spillway_slots, value); end if;
  return (now - spillway_slot_life(r), r."ratePerSecond", now, 0, now, 0, now, r."ratePerSecond",
    0, false, 0, 0, 0, now)::spillway_slots;
end
$body$`,
  `create function spillway_slot_rate(
    r spillway_bucket_rule, s spillway_slots, at double precision
  ) returns double precision language sql immutable as $body$
    select case when s."recoverMs" = 0 or at - s.since >= s."recoverMs" then r."ratePerSecond"
    else s."ratePerSecond" + (r."ratePerSecond" - s."ratePerSecond")
      * (greatest(0, at - s.since) / s."recoverMs") end
    $body$`,
  `create function spillway_slot_count(
    r spillway_bucket_rule, s spillway_slots, now double precision
  ) returns spillway_slots language plpgsql immutable as $body$
declare
  ms double precision := now - s."countedFrom";
begin
  if ms < r."roundMs" then return s; end if;
  s."givenBefore" := case when ms < 2 * r."roundMs" then s.given else 0 end;
  s.given := 0;
  s."countedFrom" := now;
  return s;
end
$body$`,
  `create function spillway_slots_ttl(
    r spillway_bucket_rule, s spillway_slots, now double precision
  ) returns double precision language sql immutable as $body$
    select greatest(s.next - now, s."roundEndsAt" - now, 0, s.since + s."recoverMs" - now)
      + spillway_slot_life(r) + 1000
    $body$`,
];

const head = `
  value jsonb, argument jsonb, now double precision,
  out answer jsonb, out next jsonb, out ttl double precision
) language plpgsql immutable as $body$
declare
  r spillway_bucket_rule := jsonb_populate_record(null::spillway_bucket_rule, argument -> 'rule');
  s spillway_slots := spillway_slots_of(value, r, now);`;

const reserve = `create function spillway_bucket_reserve(${head}
  n double precision := argument -> 'n';
  at double precision := greatest(s.next,
    now - spillway_slot_life(r) + (argument -> 'restMs')::double precision);
  step double precision := 1000 / spillway_slot_rate(r, s, at);
begin
  answer := jsonb_build_object('at', at, 'stepMs', step, 'round', s.round,
    'ratePerSecond', spillway_slot_rate(r, s, now));
  if n = 0 then return; end if;
  s.next := at + n * step;
  s := spillway_slot_count(r, s, now);
  s.given := s.given + n;
  s.next := s.next + 0.0005;
  next := to_jsonb(s);
  ttl := spillway_slots_ttl(r, s, now);
end
$body$`;

const slow = `create function spillway_bucket_slow(${head}
  pause double precision := argument -> 'retryAfterMs';
  pause_ends double precision := now + pause;
  current double precision := spillway_slot_rate(r, s, now);
  effect text := 'slowed';
  is_many boolean := false;
  share double precision;
begin
  if now >= s."roundEndsAt" then
    if current >= r."ratePerSecond" then s.halvings := 0; end if;
    s."roundEndsAt" := now + r."roundMs";
    s."roundRate" := current;
    s."roundRefused" := 0;
    s."isHalved" := false;
  end if;
  s."roundRefused" := s."roundRefused" + 1;
  if s."isHalved" then
    if pause_ends <= s."pausedUntil" then
      answer := to_jsonb('known'::text);
      return;
    end if;
  else
    s := spillway_slot_count(r, s, now);
    share := s."roundRefused" / greatest(1, s.given + s."givenBefore");
    is_many := share > 0.25 or pause > r."roundMs";
    s."ratePerSecond" := greatest(r."ratePerSecond" / 16,
      least(current, s."roundRate" * case when is_many then 0.5 else 1 - share end));
    s.since := now;
    s."recoverMs" := r."recoverMs" / 2;
    if is_many then
      effect := 'halved';
      s."isHalved" := true;
      s."recoverMs" := r."recoverMs" * least(12, power(2, least(4, s.halvings)))
        * (1 - s."ratePerSecond" / r."ratePerSecond");
      s.halvings := s.halvings + 1;
    end if;
  end if;
  if is_many or s."isHalved" then
    s.round := s.round + 1;
    s.since := pause_ends;
    s.next := greatest(pause_ends, least(s.next, now + 1000));
    s."pausedUntil" := greatest(s."pausedUntil", pause_ends);
    s."roundEndsAt" := greatest(s."roundEndsAt", pause_ends);
  end if;
  answer := to_jsonb(effect);
  next := to_jsonb(s);
  ttl := spillway_slots_ttl(r, s, now);
end
$body$`;

/** The arithmetic of a rate limit, as in `rate-record.ts` of spillway. */
const charge = [
  `create function spillway_rate_add(
    s double precision[], slot double precision, n double precision
  ) returns double precision[] language plpgsql immutable as $body$
declare
  i integer := 1;
begin
  while s[i] < slot loop i := i + 2; end loop;
  if s[i] = slot then
    s[i + 1] := s[i + 1] + n;
    return s;
  end if;
  return s[:i - 1] || array[slot, n] || s[i:];
end
$body$`,
  `create function spillway_rate_charge(
  value jsonb, argument jsonb, now double precision,
  out answer jsonb, out next jsonb, out ttl double precision
) language plpgsql immutable as $body$
declare
  span double precision := argument -> 'windowMs';
  slot double precision := span / 16;
  s double precision[] := array(
    select e::double precision from jsonb_array_elements_text(value) with ordinality as t (e, i)
    order by i);
  room double precision;
  admitted double precision;
  budget_ms double precision := least(1000, span / 10);
  budget double precision;
  free_at double precision;
begin
  while (s[1] + 1) * slot + span <= now loop s := s[3:]; end loop;
  select greatest(0, (argument -> 'limit')::double precision - coalesce(sum(e), 0)) into room
    from unnest(s) with ordinality as t (e, i) where i % 2 = 0;
  admitted := least(room, (argument -> 'waiting')::double precision);
  if admitted > 0 then s := spillway_rate_add(s, floor(now / slot), admitted); end if;
  budget := least((argument -> 'ahead')::double precision, floor((room - admitted) / 32));
  if budget > 0 then
    s := spillway_rate_add(s, floor((now + budget_ms) / slot), budget);
  end if;
  free_at := (coalesce(s[cardinality(s) - 1], -16) + 1) * slot + span;
  answer := jsonb_build_object('admitted', admitted, 'budget', budget, 'budgetMs', budget_ms,
    'remaining', room - admitted - budget, 'freeAt', free_at,
    'retryAt', (coalesce(s[1], -16) + 1) * slot + span);
  if admitted = 0 then return; end if;
  next := to_jsonb(s);
  ttl := greatest(1, free_at - now);
end
$body$`,
];

/** Makes decisions one after the other, while the lock on the state keeps commits away. */
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
    else
      select * into strict decided from spillway_rate_charge(value, arguments[i]::jsonb, now);
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

/** The decisions that {@link PostgresStore} makes on the server. */
export const decisionNames: ReadonlySet<string> = new Set([
  'bucket/reserve',
  'bucket/slow',
  'rate/charge',
]);

export const decisionMigration: Migration = {
  number: 3,
  name: 'decisions',
  statements: [...types, ...slots, reserve, slow, ...charge, apply],
};

export const applySql: string =
  'select now, wall, answer from spillway_store_apply($1, $2, $3, $4, $5)';
