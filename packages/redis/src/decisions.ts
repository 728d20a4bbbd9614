import { foreignForm, reading, type Script, script, writing } from './scripts.ts';

/**
 * Makes a decision about one record. KEYS: state, names, expiries, record. ARGV: what precedes a
 * name in the key of its record, the argument as JSON. The body finds `value` and `argument`, and
 * sets `answer` and, if the record changes, `next` and `ttl`; answer and next are JSON.
 */
const decision = (body: string): Script =>
  script(`${reading('KEYS[1], KEYS[4]')}${writing}
local it = touch(KEYS[4], string.sub(KEYS[4], #records + 1), found[2])
local value
if it.version and lives(it.expires) then
  value = cjson.decode(string.sub(found[2], #it.version + #it.expires + 3))
end
local argument = cjson.decode(ARGV[4])
local answer, next, ttl
${body}
if next then
  advance()
  put(it, next, ttl)
end
-- Also when nothing changes: WAIT covers what was written before, so the answer is not too new.
finish((next and not value) and 1 or 0)
return { now_text, wall_text, answer }`);

/** Writes JSON: cjson writes 14 digits of a number. */
const json = `
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
`;

/**
 * The arithmetic of slots, as in `slots.ts` of spillway. One format for the whole state takes a
 * third of the time that `json` does (2026-11), and buckets ask most often.
 */
const slots = `
local rule = argument.rule
local rate = rule.ratePerSecond
local life = ((rule.burst - rate % 1) / rate) * 1000
local s = value or {
  next = now - life, ratePerSecond = rate, since = now, recoverMs = 0, pausedUntil = now,
  halvings = 0, roundEndsAt = now, roundRate = rate, roundRefused = 0, isHalved = false,
  round = 0, given = 0, givenBefore = 0, countedFrom = now
}
if s.isHalved == nil then error('a bucket ${foreignForm}') end
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
  ttl = rest + life + 1000
  next = string.format('{"next":%.17g,"ratePerSecond":%.17g,"since":%.17g,"recoverMs":%.17g,' ..
    '"pausedUntil":%.17g,"halvings":%d,"roundEndsAt":%.17g,"roundRate":%.17g,' ..
    '"roundRefused":%d,"isHalved":%s,"round":%d,"given":%d,"givenBefore":%d,' ..
    '"countedFrom":%.17g}', s.next, s.ratePerSecond, s.since, s.recoverMs, s.pausedUntil,
    s.halvings, s.roundEndsAt, s.roundRate, s.roundRefused, tostring(s.isHalved), s.round,
    s.given, s.givenBefore, s.countedFrom)
end
`;

const reserve = `${slots}
local at = math.max(s.next, now - life + argument.restMs)
local step = 1000 / rate_at(at)
answer = string.format('{"at":%.17g,"stepMs":%.17g,"round":%d,"ratePerSecond":%.17g}',
  at, step, s.round, rate_at(now))
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
if answer ~= 'known' then keep() end
answer = '"' .. answer .. '"'`;

/** The arithmetic of a rate limit, as in `rate-record.ts` of spillway. */
const charge = `${json}
local window, waiting = argument.windowMs, argument.waiting
if value and not value[1] then error('a count ${foreignForm}') end
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
answer = json({
  admitted = admitted, budget = budget, budgetMs = budget_ms,
  remaining = room - admitted - budget, retryAt = end_of(s[1] or -16), freeAt = free_at
})
if admitted > 0 then next, ttl = json(s), math.max(1, free_at - now) end`;

/** The state of a breaker, as in `breaker-state.ts` and `breaker-record.ts` of spillway. */
const settle = `${json}
local rule, id = argument.rule, argument.id
local function start()
  if rule.failuresMax then return { inRow = 0 } end
  local window = { slot = 0, calls = {}, marked = {} }
  for at = 1, 10 do window.calls[at], window.marked[at] = 0, 0 end
  return window
end
local s = value or {
  status = 'closed', since = now, generation = 1, cooldownEndsAt = now, cooldowns = 0,
  successes = 0, opened = 0, probing = false, probeEndsAt = now, memory = start(),
  prober = '', recent = {}
}
local before = value and json(s)
local function turn(status, at)
  s.status, s.since, s.generation = status, at, s.generation + 1
end
local function open(at)
  local ms, most = argument.cooldownMs, argument.cooldownMsMax
  for i = 1, s.cooldowns do
    if ms >= most then break end
    ms = ms * argument.cooldownGrowth
  end
  s.cooldownEndsAt = at + math.min(most, ms) * (1 - argument.jitter * argument.chance)
  s.cooldowns, s.opened, s.successes = s.cooldowns + 1, s.opened + 1, 0
  s.probing = false
  turn('open', at)
end
local function breaks(failed, at)
  local m = s.memory
  if rule.failuresMax then
    m.inRow = failed and m.inRow + 1 or 0
    return m.inRow >= rule.failuresMax
  end
  local slot = math.floor((at / rule.windowMs) * 10)
  for i = 0, math.min(10, slot - m.slot) - 1 do
    local old = (slot - i) % 10 + 1
    m.calls[old], m.marked[old] = 0, 0
  end
  m.slot = math.max(m.slot, slot)
  local own = m.slot % 10 + 1
  m.calls[own] = m.calls[own] + 1
  if failed then m.marked[own] = m.marked[own] + 1 end
  local calls, marked = 0, 0
  for i = 1, 10 do calls, marked = calls + m.calls[i], marked + m.marked[i] end
  return failed and calls >= rule.callsMin and marked >= rule.share * calls
end
local function learn(news)
  local at, outcome = math.min(news.at, now), news.outcome
  if news.generation ~= s.generation then return end
  if news.probe and news.prober ~= s.prober then return end
  if news.probe then
    s.probing = false
    if outcome == 'failure' then open(at) end
    if outcome == 'success' then s.successes = s.successes + 1 end
    if s.successes >= argument.successesToClose then
      s.cooldowns, s.successes, s.memory = 0, 0, start()
      turn('closed', at)
    end
  elseif outcome ~= 'ignored' then
    if breaks(outcome == 'failure', at) then open(at) end
  end
end
local is_known = false
for _, each in ipairs(s.recent) do is_known = is_known or each == id end
if not is_known then for _, news in ipairs(argument.told) do learn(news) end end
local function may_probe()
  if s.status == 'closed' then return false end
  if s.probing and s.prober == id then return true end
  if s.probing and now >= s.probeEndsAt then open(now) end
  if now < (s.probing and s.probeEndsAt or s.cooldownEndsAt) then return false end
  if s.status == 'open' then turn('half-open', now) end
  s.generation, s.probing, s.prober = s.generation + 1, true, id
  s.probeEndsAt = now + argument.probeMsMax
  return true
end
local probes = argument.wantsProbe and may_probe()
if json(s) ~= before then
  s.recent[#s.recent + 1] = id
  if #s.recent > 16 then table.remove(s.recent, 1) end
  next = json(s)
end
answer = json({ probes = probes, state = s })`;

/** The decisions that a {@link RedisStore} makes on the server, by name. */
export const decisionScripts: ReadonlyMap<string, Script> = new Map([
  ['breaker/settle', decision(settle)],
  ['bucket/reserve', decision(reserve)],
  ['bucket/slow', decision(slow)],
  ['rate/charge', decision(charge)],
]);
