-- Consecutive places of a gate's slots, which no other node may sell. Slot k begins at k times the period.
--
-- KEYS  1 slots of the gate that last so long (hash: k -> "<capacity>:<next>")
-- ARGV  1 period, microseconds   2 no place starts before, microseconds since 1970; 0: none are wanted   3 how many
--       4 capacity of a slot that is new
--       then what this node holds, whatever is known here: k, capacity, the place behind its last
-- Answers {k, capacity, next, first place, places}, or nil.
local period = tonumber(ARGV[1])

local function slot(text)
  local capacity, next = string.match(text or '', '^(%d+):(%d+)$')
  return tonumber(capacity), tonumber(next)
end

local function keep(k, capacity, next)
  if redis.call('HSET', KEYS[1], whole(k), whole(capacity) .. ':' .. whole(next)) == 0 then return end
  -- A new one: those that have been over for an hour are not needed, even by a message that was long on its way.
  local before = clock() - 3600000000
  for _, old in ipairs(redis.call('HKEYS', KEYS[1])) do
    if (tonumber(old) + 1) * period <= before then redis.call('HDEL', KEYS[1], old) end
  end
end

for at = 5, #ARGV, 3 do
  local k, last = tonumber(ARGV[at]), tonumber(ARGV[at + 2])
  local capacity, next = slot(redis.call('HGET', KEYS[1], ARGV[at]))
  if not capacity then capacity, next = tonumber(ARGV[at + 1]), 0 end
  if last > next then keep(k, capacity, last) end
end

local from, wanted = tonumber(ARGV[2]), tonumber(ARGV[3])
if from == 0 then return nil end
local first = (from - from % period) / period
-- Slots whose places are leased are passed over, a hundred at a time.
for chunk = first, first + 9999, 100 do
  local numbers = {}
  for k = chunk, chunk + 99 do numbers[#numbers + 1] = whole(k) end
  for at, text in ipairs(redis.call('HMGET', KEYS[1], unpack(numbers))) do
    local k = chunk + at - 1
    local capacity, next = slot(text)
    local known = capacity
    if not known then capacity, next = tonumber(ARGV[4]), 0 end
    local late = math.max(from - k * period, 0) * capacity
    local place = math.max((late - late % period) / period + (late % period > 0 and 1 or 0), next)
    local places = math.min(math.max(capacity - place, 0), wanted)
    if places > 0 then
      keep(k, capacity, place + places)
      return {k, capacity, place + places, place, places}
    end
    if not known then keep(k, capacity, 0) end
  end
end
return nil
