/**
 * Returns without an answer if a field is missing, as in a record of another version: in SQL a row
 * is `not null` only if every field is. A null would count as a bucket with a burst at every call.
 */
const leaveUnknown = 'if (s is not null) is false then return; end if;';

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
  ${leaveUnknown}
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
  ${leaveUnknown}
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

/** The state of a breaker, as in `breaker-state.ts` and `breaker-record.ts` of spillway. */
const settle = [
  `create type spillway_breaker as (
    status text, since double precision, generation double precision,
    "cooldownEndsAt" double precision, cooldowns double precision, successes double precision,
    opened double precision, probing boolean, "probeEndsAt" double precision, memory jsonb,
    prober text, recent jsonb)`,
  `create function spillway_break_start(rule jsonb) returns jsonb language sql immutable as $body$
    select case when rule ? 'failuresMax' then '{"inRow": 0}'::jsonb
    else jsonb_build_object('slot', 0, 'calls', to_jsonb(array_fill(0, array[10])),
      'marked', to_jsonb(array_fill(0, array[10]))) end
    $body$`,
  `create function spillway_breaks(
    inout memory jsonb, rule jsonb, failed boolean, at double precision, out broken boolean
  ) language plpgsql immutable as $body$
declare
  in_row double precision;
  slot bigint;
  last bigint;
  calls double precision[];
  marked double precision[];
  total double precision;
  bad double precision;
begin
  if rule ? 'failuresMax' then
    in_row := case when failed then (memory -> 'inRow')::double precision + 1 else 0 end;
    memory := jsonb_build_object('inRow', in_row);
    broken := in_row >= (rule -> 'failuresMax')::double precision;
    return;
  end if;
  calls := array(select e::double precision from jsonb_array_elements_text(memory -> 'calls')
    with ordinality as t (e, i) order by i);
  marked := array(select e::double precision from jsonb_array_elements_text(memory -> 'marked')
    with ordinality as t (e, i) order by i);
  slot := floor((at / (rule -> 'windowMs')::double precision) * 10)::bigint;
  last := (memory -> 'slot')::bigint;
  for i in 0..greatest(0, least(10, slot - last)) - 1 loop
    calls[(slot - i) % 10 + 1] := 0;
    marked[(slot - i) % 10 + 1] := 0;
  end loop;
  last := greatest(last, slot);
  calls[last % 10 + 1] := calls[last % 10 + 1] + 1;
  if failed then marked[last % 10 + 1] := marked[last % 10 + 1] + 1; end if;
  select sum(e) into total from unnest(calls) e;
  select sum(e) into bad from unnest(marked) e;
  memory := jsonb_build_object('slot', last, 'calls', to_jsonb(calls), 'marked', to_jsonb(marked));
  broken := failed and total >= (rule -> 'callsMin')::double precision
    and bad >= (rule -> 'share')::double precision * total;
end
$body$`,
  `create function spillway_breaker_open(
    s spillway_breaker, argument jsonb, at double precision
  ) returns spillway_breaker language plpgsql immutable as $body$
declare
  ms double precision := argument -> 'cooldownMs';
  most double precision := argument -> 'cooldownMsMax';
begin
  for i in 1..least(100000, s.cooldowns)::integer loop
    exit when ms >= most;
    ms := ms * (argument -> 'cooldownGrowth')::double precision;
  end loop;
  s."cooldownEndsAt" := at + least(most, ms)
    * (1 - (argument -> 'jitter')::double precision * (argument -> 'chance')::double precision);
  s.cooldowns := s.cooldowns + 1;
  s.opened := s.opened + 1;
  s.successes := 0;
  s.probing := false;
  s.status := 'open';
  s.since := at;
  s.generation := s.generation + 1;
  return s;
end
$body$`,
  `create function spillway_breaker_learn(
    s spillway_breaker, argument jsonb, news jsonb, now double precision
  ) returns spillway_breaker language plpgsql immutable as $body$
declare
  at double precision := least((news -> 'at')::double precision, now);
  outcome text := news ->> 'outcome';
  counted record;
begin
  if (news -> 'generation')::double precision <> s.generation then return s; end if;
  if (news -> 'probe')::boolean then
    if news ->> 'prober' <> s.prober then return s; end if;
    s.probing := false;
    if outcome = 'failure' then s := spillway_breaker_open(s, argument, at); end if;
    if outcome = 'success' then s.successes := s.successes + 1; end if;
    if s.successes >= (argument -> 'successesToClose')::double precision then
      s.cooldowns := 0;
      s.successes := 0;
      s.memory := spillway_break_start(argument -> 'rule');
      s.status := 'closed';
      s.since := at;
      s.generation := s.generation + 1;
    end if;
  elsif outcome <> 'ignored' then
    select * into strict counted
      from spillway_breaks(s.memory, argument -> 'rule', outcome = 'failure', at);
    s.memory := counted.memory;
    if counted.broken then s := spillway_breaker_open(s, argument, at); end if;
  end if;
  return s;
end
$body$`,
  `create function spillway_breaker_settle(
  value jsonb, argument jsonb, now double precision,
  out answer jsonb, out next jsonb, out ttl double precision
) language plpgsql immutable as $body$
declare
  id text := argument ->> 'id';
  news jsonb;
  probes boolean := false;
  s spillway_breaker;
begin
  if value is null then
    s := ('closed', now, 1, now, 0, 0, 0, false, now, spillway_break_start(argument -> 'rule'),
      '', '[]'::jsonb)::spillway_breaker;
  else
    s := jsonb_populate_record(null::spillway_breaker, value);
  end if;
  ${leaveUnknown}
  if not s.recent ? id then
    for news in select e from jsonb_array_elements(argument -> 'told') e loop
      s := spillway_breaker_learn(s, argument, news, now);
    end loop;
  end if;
  if (argument -> 'wantsProbe')::boolean and s.status <> 'closed' then
    probes := s.probing and s.prober = id;
    if not probes then
      if s.probing and now >= s."probeEndsAt" then
        s := spillway_breaker_open(s, argument, now);
      end if;
      probes := now >= case when s.probing then s."probeEndsAt" else s."cooldownEndsAt" end;
      if probes then
        if s.status = 'open' then
          s.status := 'half-open';
          s.since := now;
          s.generation := s.generation + 1;
        end if;
        s.generation := s.generation + 1;
        s.probing := true;
        s.prober := id;
        s."probeEndsAt" := now + (argument -> 'probeMsMax')::double precision;
      end if;
    end if;
  end if;
  if to_jsonb(s) is distinct from value then
    s.recent := s.recent || to_jsonb(id);
    if jsonb_array_length(s.recent) > 16 then s.recent := s.recent - 0; end if;
    next := to_jsonb(s);
  end if;
  answer := jsonb_build_object('state', to_jsonb(s), 'probes', probes);
end
$body$`,
];

/** The decisions that {@link PostgresStore} makes on the server. */
export const decisionNames: ReadonlySet<string> = new Set([
  'breaker/settle',
  'bucket/reserve',
  'bucket/slow',
  'rate/charge',
]);

/** The types and functions that decisions need. */
export const decisionStatements: readonly string[] = [
  ...types,
  ...slots,
  reserve,
  slow,
  ...charge,
  ...settle,
];
