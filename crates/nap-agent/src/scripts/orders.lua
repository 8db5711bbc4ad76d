-- Orders for all nodes: takes those that were given at one, and says what it has not heard. Of one matter the later order
-- stands; what is done once goes into a list, of which the last 256 are kept.
--
-- KEYS  1 orders (hash: life, version, "<matter> <room>" -> "<version> <at> <by> <value>")
--       2 ordered (list of "<version> <by> <matter> <value>")
-- ARGV  1 life of the orders that the node knows; empty: of none   2 their version   3 the node's name
--       then of each order: matter, room (empty: it is done once), value, at (microseconds since 1970)
-- Answers {life, version}, and if the node does not know them all the hash and the list.
local life = redis.call('HGET', KEYS[1], 'life')

local function begin()
  local time = redis.call('TIME')
  life = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
  redis.call('HSET', KEYS[1], 'life', life)
  redis.call('LTRIM', KEYS[2], 1, 0)
end

local function next()
  return redis.call('HINCRBY', KEYS[1], 'version', 1)
end

for at = 4, #ARGV, 4 do
  local matter, room, value, given = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if not life then begin() end
  if room == '' then
    local words = string.format('%d %s %s %s', next(), ARGV[3], matter, value)
    redis.call('RPUSH', KEYS[2], words)
    redis.call('LTRIM', KEYS[2], -256, -1)
  else
    local field = matter .. ' ' .. room
    local known = redis.call('HGET', KEYS[1], field)
    local before = known and tonumber(string.match(known, '^%d+ (%d+) '))
    if not before or before < tonumber(given) then
      local words = string.format('%d %s %s %s', next(), given, ARGV[3], value)
      redis.call('HSET', KEYS[1], field, words)
    end
  end
end

if not life then return {'', '0'} end
local version = redis.call('HGET', KEYS[1], 'version') or '0'
if life == ARGV[1] and version == ARGV[2] then return {life, version} end
return {life, version, redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1)}
