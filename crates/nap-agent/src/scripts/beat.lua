-- A node's sign of life. The first one of a name gives it a number, for good.
--
-- KEYS  1 names (hash: name -> number)   2 beats (hash: number -> JSON)   3 cards (likewise)   4 epoch
-- ARGV  1 name   2 instance   3 number it had before, 0: none   4 beat (JSON object)
--       5 card (JSON; empty: as it is here)   6 microseconds after which a name is free
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
  if not number then return {'full', time[1], time[2]} end
  redis.call('HSET', KEYS[1], ARGV[1], number)
end

local last = redis.call('HGET', KEYS[2], number)
if last then
  local sound, beat = pcall(cjson.decode, last)
  if sound and type(beat) == 'table' and type(beat.at) == 'number' and beat.left ~= true
    and beat.instance ~= ARGV[2] and math.abs(now - beat.at) < tonumber(ARGV[6])
  then
    return {'taken', time[1], time[2], redis.call('HGET', KEYS[3], number) or ''}
  end
end

redis.call('HSET', KEYS[2], number, '{"at":' .. stamp .. ',' .. string.sub(ARGV[4], 2))
if ARGV[5] ~= '' then redis.call('HSET', KEYS[3], number, ARGV[5]) end
return {'joined', time[1], time[2], number, epoch, redis.call('HEXISTS', KEYS[3], number)}
