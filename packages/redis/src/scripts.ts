import { createHash } from 'node:crypto';

/** A Lua script; each runs on the server as one atomic step. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/**
 * Store time goes on by the differences of the server's clock, from the last commit and from what
 * the caller has seen last, so it never goes back and never stands still because one clock was
 * ahead once. Lua prints 14 digits of a number unless it is told otherwise. `%d` takes a quarter of
 * the time that `%.17g` does (2026-11), and most times are whole microseconds.
 *
 * KEYS[1] is the state: `now`, `wall`, `version`. ARGV[1] and [2] are the time and the server's
 * clock as the caller saw them last, or empty.
 */
export const clock: string = `
local time = redis.call('TIME')
local wall = time[1] * 1000 + time[2] / 1000
local state = redis.call('HMGET', KEYS[1], 'now', 'wall', 'version')
local now = wall
if state[1] then now = state[1] + math.max(0, wall - (state[2] or wall)) end
if ARGV[1] ~= '' then now = math.max(now, ARGV[1] + math.max(0, wall - ARGV[2])) end
local function exact(number)
  if number % 1 == 0 then return string.format('%d', number) end
  local us = math.floor(number * 1000 + 0.5)
  if us / 1000 ~= number or us < 0 then return string.format('%.17g', number) end
  return string.format('%d.%03d', us / 1000, us % 1000)
end
local wall_text = exact(wall)
local now_text = now == wall and wall_text or exact(now)
`;

/**
 * Reads the records KEYS[2..]. With ARGV[3] it also writes down the time: WAIT then covers all
 * that was written before the read, by whichever connection.
 */
export const readScript: Script = script(`${clock}
if ARGV[3] == 'touch' then
  redis.call('HSET', KEYS[1], 'now', now_text, 'wall', wall_text)
end
local answer = { now_text, wall_text }
for at = 2, #KEYS do
  local record = redis.call('HMGET', KEYS[at], 'value', 'version', 'expires')
  if record[1] and (record[3] == '' or tonumber(record[3]) > now) then
    answer[#answer + 1] = record
  else
    answer[#answer + 1] = false
  end
end
return answer`);

/**
 * Lists records by the bytes of their names. KEYS[2] is the set of names; ARGV: prefix, maximum,
 * the name behind which the list begins, and what precedes a name in the key of its record.
 */
export const listScript: Script = script(`${clock}
local prefix, max, after, records = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local from = prefix == '' and '-' or '[' .. prefix
if after ~= '' and after >= prefix then from = '(' .. after end
local to = prefix == '' and '+' or '(' .. prefix .. '\\255'
local answer = { now_text, wall_text }
while #answer - 2 < max do
  local wanted = max - (#answer - 2)
  local names = redis.call('ZRANGE', KEYS[2], from, to, 'BYLEX', 'LIMIT', 0, wanted)
  for _, name in ipairs(names) do
    local record = redis.call('HMGET', records .. name, 'value', 'version', 'expires')
    if record[1] and (record[3] == '' or tonumber(record[3]) > now) then
      record[4] = name
      answer[#answer + 1] = record
    end
  end
  if #names < wanted then break end
  from = '(' .. names[#names]
end
return answer`);

/**
 * Writes records and the state. KEYS: state, names, expiries; ARGV[3] is what precedes a name in
 * the key of its record. A version is at least the microseconds since 1970: after a failover that
 * lost commits none of their versions is given again. Each call removes more expired records than
 * it writes. The two indexes are changed at the end, each by one command; `named` and `timed` say
 * how: a name that maps to false is removed. A record may expire later than its index says, never
 * earlier: so one that lives on and on costs no command of its own.
 */
export const writing: string = `
local names, expiries, records = KEYS[2], KEYS[3], ARGV[3]
local named, timed = {}, {}
local version_text = state[3] or '0'
local function advance()
  version_text = string.format('%d', math.max(version_text + 1, time[1] * 1000000 + time[2]))
end
local function put(key, name, value, ttl, indexed)
  local expires = ttl and exact(now + ttl) or ''
  local is_new =
    redis.call('HSET', key, 'value', value, 'version', version_text, 'expires', expires) > 0
  if ttl then
    if not (indexed and indexed <= now + ttl) then timed[name] = expires end
  elseif not is_new or named[name] ~= nil then timed[name] = false end
  if is_new then named[name] = true end
end
local function remove(key, name)
  if redis.call('DEL', key) > 0 or named[name] ~= nil then
    named[name], timed[name] = false, false
  end
end
local function index(key, wanted, score)
  local added, removed = {}, {}
  for name, value in pairs(wanted) do
    if value then
      added[#added + 1] = score or value
      added[#added + 1] = name
    else removed[#removed + 1] = name end
  end
  for at = 1, #added, 4000 do
    redis.call('ZADD', key, unpack(added, at, math.min(at + 3999, #added)))
  end
  for at = 1, #removed, 4000 do
    redis.call('ZREM', key, unpack(removed, at, math.min(at + 3999, #removed)))
  end
end
local function finish(written)
  redis.call('HSET', KEYS[1], 'now', now_text, 'wall', wall_text, 'version', version_text)
  if written > 0 then
    local most = written + 100
    local expired = redis.call('ZRANGEBYSCORE', expiries, '-inf', now_text, 'LIMIT', 0, most)
    for _, name in ipairs(expired) do
      local expires = redis.call('HGET', records .. name, 'expires')
      -- What was written by this call is not in the index yet.
      if timed[name] ~= nil then -- stays as it is
      elseif expires and expires ~= '' and tonumber(expires) > now then timed[name] = expires
      else remove(records .. name, name) end
    end
  end
  index(names, named, 0)
  index(expiries, timed)
end
`;

/**
 * Makes a group of commits, one after the other, each whole or not at all. KEYS: state, names,
 * expiries, then the record of each change. ARGV: what precedes a name in the key of its record,
 * the channel to tell of changes, then for each commit the number of its changes and for each
 * change name, version to find, value, lifetime, `check` if nothing is to be written. An empty
 * value removes the record. The message has the changed names with a NUL between two. A
 * call that makes no commit writes nothing.
 */
export const commitScript: Script = script(`${clock}${writing}
local channel = ARGV[4]
local answer = { now_text, wall_text }
local told, key, at, made = {}, 4, 5, 0
while at <= #ARGV do
  local count, first, agrees = tonumber(ARGV[at]), at + 1, true
  for i = 0, count - 1 do
    local wanted = ARGV[first + i * 5 + 1]
    if wanted ~= '' then
      local found = redis.call('HMGET', KEYS[key + i], 'version', 'expires')
      local is_there = found[1] and (found[2] == '' or tonumber(found[2]) > now)
      if (is_there and found[1] or '0') ~= wanted then
        agrees = false
        break
      end
    end
  end
  if agrees then
    advance()
    made = made + 1
    for i = 0, count - 1 do
      local change = first + i * 5
      local name, value, ttl = ARGV[change], ARGV[change + 2], tonumber(ARGV[change + 3])
      if ARGV[change + 4] ~= 'check' then
        if value == '' then remove(KEYS[key + i], name)
        else put(KEYS[key + i], name, value, ttl) end
        told[#told + 1] = name
      end
    end
    answer[#answer + 1] = version_text
  else
    answer[#answer + 1] = ''
  end
  key = key + count
  at = first + count * 5
end
if made > 0 then finish(#told) end
if #told > 0 then redis.call('PUBLISH', channel, table.concat(told, '\\0')) end
return answer`);
