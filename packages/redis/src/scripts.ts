import { createHash } from 'node:crypto';

/** A Lua script; each runs on the server as one atomic step. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

/** Part of the error of a script that finds a state or a record that it cannot read. */
export const foreignForm = 'was written by another version of spillway';

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/**
 * Begins every script: reads the state and other keys by one command into `found`, and computes the
 * time. A redis.call costs a script more than a few further keys in the same call, so all values
 * are strings: the state is `now wall version`, a record is `version expires value`.
 *
 * A version that writes records which these scripts would misread has to write the state in
 * another format as well: every script refuses a state that it does not know, so that older
 * processes then do nothing.
 *
 * Store time advances by the differences of the server's clock, from the last commit and from the
 * time that the caller saw last. So it never goes back, and never stands still because one clock
 * was ahead once. Lua prints 14 digits of a number by default. `%d` takes a quarter of
 * the time that `%.17g` does (2026-11), and most times are whole microseconds.
 *
 * KEYS[1] is the state. ARGV[1] and [2] are the time and the server's clock as the caller saw them
 * last, or empty.
 */
export const reading = (keys: string): string => `
local time = redis.call('TIME')
local wall = time[1] * 1000 + time[2] / 1000
local found = redis.call('MGET', ${keys})
local state_now, state_wall, version_text = string.match(found[1] or '', '^(%S+) (%S+) (%S+)$')
if found[1] and not state_now then
  return redis.error_reply('ERR the state of the store ${foreignForm}')
end
local now = wall
if state_now then now = state_now + math.max(0, wall - state_wall) end
if ARGV[1] ~= '' then now = math.max(now, ARGV[1] + math.max(0, wall - ARGV[2])) end
local function exact(number)
  if number % 1 == 0 then return string.format('%d', number) end
  local us = math.floor(number * 1000 + 0.5)
  if us / 1000 ~= number or us < 0 then return string.format('%.17g', number) end
  return string.format('%d.%03d', us / 1000, us % 1000)
end
local wall_text = exact(wall)
local now_text = now == wall and wall_text or exact(now)
version_text = version_text or '0'
local function state() return now_text .. ' ' .. wall_text .. ' ' .. version_text end
local function lives(expires) return expires == '' or tonumber(expires) > now end
local function head_of(text)
  local version, expires = string.match(text, '^(%d+) (%S*) ')
  if not version and text ~= '' then error('a record ${foreignForm}') end
  return version, expires
end
local function is_there(text)
  if not text then return false end
  local _, expires = head_of(text)
  return lives(expires)
end
`;

/**
 * Reads the records KEYS[2..]. With ARGV[3] it also writes the time: WAIT then covers everything
 * that was written before the read, by any connection.
 */
export const readScript: Script = script(`${reading('KEYS[1]')}
if ARGV[3] == 'touch' then redis.call('SET', KEYS[1], state()) end
local answer = { now_text, wall_text }
for from = 2, #KEYS, 4000 do
  local to = math.min(from + 3999, #KEYS)
  local texts = redis.call('MGET', unpack(KEYS, from, to))
  for at = 1, to - from + 1 do
    answer[#answer + 1] = is_there(texts[at]) and texts[at] or false
  end
end
return answer`);

/**
 * Most names that one call of a list looks at: the server does nothing else meanwhile, and most of
 * them may have expired. 500,000 at once took a second (2026-11).
 */
const lookedMax = 5_000;

/**
 * Lists records by the bytes of their names, each as name and record. The first item is the name
 * after which the next call of the list goes on, or nothing at its end. KEYS[2] is the set of
 * names; ARGV: prefix, maximum, the name behind which the list begins, and what precedes a name in
 * the key of its record.
 */
export const listScript: Script = script(`${reading('KEYS[1]')}
local prefix, max, after, records = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local from = prefix == '' and '-' or '[' .. prefix
if after ~= '' and after >= prefix then from = '(' .. after end
local to = prefix == '' and '+' or '(' .. prefix .. '\\255'
local answer, left, behind = { now_text, wall_text, '' }, ${lookedMax}, ''
while #answer - 3 < 2 * max and left > 0 do
  local wanted = math.min(left, max - (#answer - 3) / 2)
  local names = redis.call('ZRANGE', KEYS[2], from, to, 'BYLEX', 'LIMIT', 0, wanted)
  for _, name in ipairs(names) do
    local text = redis.call('GET', records .. name)
    if is_there(text) then
      answer[#answer + 1] = name
      answer[#answer + 1] = text
    end
  end
  behind = #names == wanted and names[wanted] or ''
  if behind == '' then break end
  from = '(' .. behind
  left = left - wanted
end
answer[3] = behind
return answer`);

/**
 * Writes records and the state. KEYS: state, names, expiries; ARGV[3] is what precedes a name in
 * the key of its record. A version is at least the microseconds since 1970: after a failover that
 * lost commits none of their versions is given again. Each call removes more expired records than
 * it writes. All writes happen at the end, by `finish`: until then `touched` has each record as it
 * was found (`was`, `indexed`) and as it is to be (`version`, `expires`, `text`). A record may
 * expire later than its index says, never earlier: so a record that is renewed again and again
 * costs no command for its index.
 */
export const writing: string = `
local names, expiries, records = KEYS[2], KEYS[3], ARGV[3]
local touched, by_key = {}, {}
local function touch(key, name, text)
  local version, expires = head_of(text or '')
  local it = {
    key = key, name = name, was = version, indexed = expires, version = version, expires = expires
  }
  by_key[key] = it
  touched[#touched + 1] = it
  return it
end
local function advance()
  version_text = string.format('%d', math.max(version_text + 1, time[1] * 1000000 + time[2]))
end
local function put(it, value, ttl)
  it.version, it.expires = version_text, ttl and exact(now + ttl) or ''
  it.text = version_text .. ' ' .. it.expires .. ' ' .. value
end
local function remove(it) it.version, it.expires, it.text = nil, nil, false end
local function call(command, key, words)
  for at = 1, words and #words or 0, 4000 do
    local last = math.min(at + 3999, #words)
    if key then redis.call(command, key, unpack(words, at, last))
    else redis.call(command, unpack(words, at, last)) end
  end
end
local function purge(most)
  local due = redis.call('ZRANGEBYSCORE', expiries, '-inf', now_text, 'LIMIT', 0, most)
  for _, name in ipairs(due) do
    local key = records .. name
    local it = by_key[key] or touch(key, name, redis.call('GETRANGE', key, 0, 63))
    it.is_due = true
    if not (it.version and lives(it.expires)) then remove(it) end
  end
end
local function pushed(list, first, second)
  list = list or {}
  list[#list + 1] = first
  list[#list + 1] = second
  return list
end
local function finish(written)
  if written > 0 then purge(written + 100) end
  local set, gone, named, unnamed, timed, untimed = { KEYS[1], state() }
  for _, it in ipairs(touched) do
    local is_timed = it.version and it.expires ~= ''
    local was_timed = it.is_due or (it.was and it.indexed ~= '')
    if it.text then
      pushed(set, it.key, it.text)
      if not it.was then named = pushed(named, 0, it.name) end
    elseif it.text == false and it.was then
      gone = pushed(gone, it.key)
      unnamed = pushed(unnamed, it.name)
    end
    if not is_timed then
      if was_timed then untimed = pushed(untimed, it.name) end
    elseif it.is_due or not was_timed or tonumber(it.indexed) > tonumber(it.expires) then
      timed = pushed(timed, it.expires, it.name)
    end
  end
  -- First, since a full server lets a script write that has removed something.
  call('DEL', nil, gone)
  call('MSET', nil, set)
  call('ZADD', names, named)
  call('ZREM', names, unnamed)
  call('ZADD', expiries, timed)
  call('ZREM', expiries, untimed)
end
`;

/** Records whose old values are read with their heads: more may be too much for the server. */
const wholeMax = 64;

/**
 * Makes a group of commits, one after the other, each whole or not at all. KEYS: state, names,
 * expiries, then the record of each change. ARGV: what precedes a name in the key of its record,
 * the channel of changes, then for each commit the number of its changes and for each change the
 * version to find, the value, and the lifetime, or `check` if nothing is to be written.
 * An empty value removes the record. The message has the changed names with a NUL between two. A
 * call that makes no commit writes nothing.
 */
export const commitScript: Script = script(`
local is_small = #KEYS - 3 <= ${wholeMax}
${reading('KEYS[1], unpack(KEYS, 4, is_small and #KEYS or 3)')}${writing}
local answer, told, made = { now_text, wall_text }, {}, false
local function record(at)
  local key = KEYS[at]
  if by_key[key] then return by_key[key] end
  local text = is_small and found[at - 2]
  if not is_small then text = redis.call('GETRANGE', key, 0, 63) end
  return touch(key, string.sub(key, #records + 1), text)
end
local key, at = 4, 5
while at <= #ARGV do
  local count, agrees = tonumber(ARGV[at]), true
  for i = 0, count - 1 do
    local wanted = ARGV[at + i * 3 + 1]
    if wanted ~= '' then
      local it = record(key + i)
      if (it.version and lives(it.expires) and it.version or '0') ~= wanted then
        agrees = false
        break
      end
    end
  end
  if agrees then
    advance()
    made = true
    for i = 0, count - 1 do
      local value, ttl = ARGV[at + i * 3 + 2], ARGV[at + i * 3 + 3]
      if ttl ~= 'check' then
        local it = record(key + i)
        if value == '' then remove(it) else put(it, value, tonumber(ttl)) end
        told[#told + 1] = it.name
      end
    end
  end
  answer[#answer + 1] = agrees and version_text or ''
  key = key + count
  at = at + count * 3 + 1
end
-- Told before it is written, which nobody can see: a user who may not publish changes nothing.
if #told > 0 then redis.call('PUBLISH', ARGV[4], table.concat(told, '\\0')) end
if made then finish(#told) end
return answer`);
