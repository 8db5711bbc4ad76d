-- A node's sign of life. The first one of a name gives it a number. It keeps it, unless none is left for another name once it
-- has been away for a day and longer than all others.
--
-- KEYS  1 names (hash: name -> number)   2 beats (hash: number -> JSON)   3 cards (likewise)   4 epoch
-- ARGV  1 name   2 instance   3 number it had before, 0: none   4 beat (JSON object)
--       5 card (JSON; empty: as it is here)   6 microseconds after which a name is free
--       7 microseconds after which its number may be another's
-- Answers {'joined', seconds, microseconds, number, epoch, is its card here (0, 1)},
--         {'taken', seconds, microseconds, card of who has the name}, {'full', seconds, microseconds}.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local stamp = string.format('%.0f', now)

-- The node that finds none makes one: a change tells all that the store was emptied.
local epoch = redis.call('GET', KEYS[4])
if not epoch then
  epoch = stamp
  redis.call('SET', KEYS[4], epoch)
end

-- The last beat of a number, if there is one that can be read.
local function beat_of(number)
  local last = redis.call('HGET', KEYS[2], number)
  local sound, beat = pcall(cjson.decode, last or '')
  if sound and type(beat) == 'table' and type(beat.at) == 'number' then return beat end
end

-- The name that nobody has used for longest.
local function gone()
  local name, number
  local since = now - tonumber(ARGV[7])
  local names = redis.call('HGETALL', KEYS[1])
  for one = 1, #names, 2 do
    local node, beat = tonumber(names[one + 1]), beat_of(names[one + 1])
    local at = beat and beat.at or 0
    if at < since and node and node >= 1 and node <= 255 then name, number, since = names[one], names[one + 1], at end
  end
  return name, number
end

local number = redis.call('HGET', KEYS[1], ARGV[1])
if not number then
  local taken = {}
  for _, one in ipairs(redis.call('HVALS', KEYS[1])) do taken[one] = true end
  if ARGV[3] ~= '0' and not taken[ARGV[3]] then
    number = ARGV[3]
  else
    for one = 1, 255 do
      if not taken[tostring(one)] then
        number = tostring(one)
        break
      end
    end
  end
  if not number then
    local before
    before, number = gone()
    if not number then return {'full', time[1], time[2]} end
    redis.call('HDEL', KEYS[1], before)
    redis.call('HDEL', KEYS[3], number)
  end
  redis.call('HSET', KEYS[1], ARGV[1], number)
end

local last = beat_of(number)
if last and last.left ~= true and last.instance ~= ARGV[2] and math.abs(now - last.at) < tonumber(ARGV[6]) then
  return {'taken', time[1], time[2], redis.call('HGET', KEYS[3], number) or ''}
end

redis.call('HSET', KEYS[2], number, '{"at":' .. stamp .. ',' .. string.sub(ARGV[4], 2))
if ARGV[5] ~= '' then redis.call('HSET', KEYS[3], number, ARGV[5]) end
return {'joined', time[1], time[2], number, epoch, redis.call('HEXISTS', KEYS[3], number)}
