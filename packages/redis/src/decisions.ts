import { clock, type Script, script, writing } from './scripts.ts';

/**
 * Makes a decision about one record. KEYS: state, names, expiries, record. ARGV: what precedes a
 * name in the key of its record, the name, the argument as JSON. The body finds `value` and
 * `argument`, and sets `answer`, and `next` and `ttl` if the record changes. JSON is written by
 * `json`, since cjson writes 14 digits of a number.
 */
const decision = (body: string): Script =>
  script(`${clock}${writing}
local found = redis.call('HMGET', KEYS[4], 'value', 'expires')
local is_there = found[1] and (found[2] == '' or tonumber(found[2]) > now)
local value = is_there and cjson.decode(found[1]) or nil
local argument = cjson.decode(ARGV[5])
local answer, next, ttl
local function json(of)
  if type(of) == 'number' then return exact(of) end
  if type(of) == 'boolean' then return tostring(of) end
  if type(of) == 'string' then return cjson.encode(of) end
  local parts = {}
  if #of > 0 then
    for at, part in ipairs(of) do parts[at] = json(part) end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  for key, part in pairs(of) do parts[#parts + 1] = '"' .. key .. '":' .. json(part) end
  return '{' .. table.concat(parts, ',') .. '}'
end
${body}
if next then put(KEYS[4], ARGV[4], json(next), advance(), ttl, is_there) end
finish((next and not is_there) and 1 or 0)
return { exact(now), exact(wall), json(answer) }`);

/** The arithmetic of slots, as in `slots.ts` of spillway. */
const slots = `
local rule = argument.rule
local rate = rule.ratePerSecond
local life = ((rule.burst - rate % 1) / rate) * 1000
local s = value or {
  next = now - life, ratePerSecond = rate, since = now, recoverMs = 0, pausedUntil = now,
  halvings = 0, roundEndsAt = now, roundRate = rate, roundRefused = 0, isHalved = false,
  round = 0, given = 0, givenBefore = 0, countedFrom = now
}
local function rate_at(at)
  if s.recoverMs == 0 or at - s.since >= s.recoverMs then return rate end
  local share = math.max(0, at - s.since) / s.recoverMs
  return s.ratePerSecond + (rate - s.ratePerSecond) * share
end
local function count()
  local ms = now - s.countedFrom
  if ms < rule.roundMs then return end
  s.givenBefore = ms < 2 * rule.roundMs and s.given or 0
  s.given = 0
  s.countedFrom = now
end
local function keep()
  local rest = math.max(s.next - now, s.roundEndsAt - now, 0)
  rest = math.max(rest, math.max(0, s.since + s.recoverMs - now))
  next, ttl = s, rest + life + 1000
end
`;

const reserve = `${slots}
local at = math.max(s.next, now - life + argument.restMs)
local step = 1000 / rate_at(at)
answer = { at = at, stepMs = step, round = s.round, ratePerSecond = rate_at(now) }
if argument.n > 0 then
  s.next = at + argument.n * step
  count()
  s.given = s.given + argument.n
  s.next = s.next + 0.0005
  keep()
end`;

const slow = `${slots}
local pause = argument.retryAfterMs
local pause_ends = now + pause
local before, current = s.next, rate_at(now)
local function stop()
  s.round = s.round + 1
  s.since = pause_ends
  s.pausedUntil = math.max(s.pausedUntil, pause_ends)
  s.roundEndsAt = math.max(s.roundEndsAt, pause_ends)
  s.next = math.max(pause_ends, math.min(before, now + 1000))
end
if now >= s.roundEndsAt then
  if current >= rate then s.halvings = 0 end
  s.roundEndsAt = now + rule.roundMs
  s.roundRate = current
  s.roundRefused = 0
  s.isHalved = false
end
s.roundRefused = s.roundRefused + 1
if s.isHalved then
  answer = 'known'
  if pause_ends > s.pausedUntil then
    stop()
    answer = 'slowed'
  end
else
  count()
  local share = s.roundRefused / math.max(1, s.given + s.givenBefore)
  local is_many = share > 0.25 or pause > rule.roundMs
  local lowered = s.roundRate * (is_many and 0.5 or 1 - share)
  s.ratePerSecond = math.max(rate / 16, math.min(current, lowered))
  s.since = now
  s.recoverMs = rule.recoverMs / 2
  answer = 'slowed'
  if is_many then
    s.isHalved = true
    local times = math.min(12, 2 ^ s.halvings)
    s.recoverMs = rule.recoverMs * times * (1 - s.ratePerSecond / rate)
    s.halvings = s.halvings + 1
    stop()
    answer = 'halved'
  end
end
if answer ~= 'known' then keep() end`;

/** The arithmetic of a rate limit, as in `rate-record.ts` of spillway. */
const charge = `
local window, waiting = argument.windowMs, argument.waiting
local slot = window / 16
local function end_of(at) return (at + 1) * slot + window end
local s, used = {}, 0
for at = 1, #(value or {}), 2 do
  if #s > 0 or end_of(value[at]) > now then
    s[#s + 1] = value[at]
    s[#s + 1] = value[at + 1]
    used = used + value[at + 1]
  end
end
local function add(n, at)
  local wanted, i = math.floor(at / slot), 1
  while s[i] and s[i] < wanted do i = i + 2 end
  if s[i] == wanted then s[i + 1] = s[i + 1] + n
  else
    table.insert(s, i, n)
    table.insert(s, i, wanted)
  end
end
local room = math.max(0, argument.limit - used)
local admitted = math.min(room, waiting)
if admitted > 0 then add(admitted, now) end
local budget_ms = math.min(1000, window / 10)
local budget = math.min(argument.ahead, math.floor((room - admitted) / 32))
if budget > 0 then add(budget, now + budget_ms) end
local free_at = end_of(s[#s - 1] or -16)
answer = {
  admitted = admitted, budget = budget, budgetMs = budget_ms,
  remaining = room - admitted - budget, retryAt = end_of(s[1] or -16), freeAt = free_at
}
if admitted > 0 then next, ttl = s, math.max(1, free_at - now) end`;

/** The decisions that a {@link RedisStore} makes on the server, by name. */
export const decisionScripts: ReadonlyMap<string, Script> = new Map([
  ['bucket/reserve', decision(reserve)],
  ['bucket/slow', decision(slow)],
  ['rate/charge', decision(charge)],
]);
