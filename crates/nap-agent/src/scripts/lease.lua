-- Consecutive places of a gate's slots, which no other node may sell. Slot k begins at k times the period. A slot is written
-- "<capacity>:<next>", and "g" behind it if its capacity is a guess.
--
-- KEYS  1 slots of the gate that last so long (hash: k -> slot)
-- ARGV  1 period, microseconds   2 no place starts before, microseconds since 1970; 0: none are wanted   3 how many
--       4 a slot that is new; also if it was a guess and this is none
--       then what this node holds, whatever is known here: k, a slot with the place behind its last as the next
-- Answers {k, capacity, next, 1: a guess, first place, places}, or nil.
local period = tonumber(ARGV[1])

local function slot(text)
  local capacity, next, guess = string.match(text or '', '^(%d+):(%d+)(g?)$')
  return tonumber(capacity), tonumber(next), guess == 'g'
end

local function keep(k, capacity, next, guess)
  local text = whole(capacity) .. ':' .. whole(next) .. (guess and 'g' or '')
  if redis.call('HSET', KEYS[1], whole(k), text) == 0 then return end
  -- A new one: those that have been over for an hour are not needed, even by a message that was long on its way.
  local before = clock() - 3600000000
  for _, old in ipairs(redis.call('HKEYS', KEYS[1])) do
    if (tonumber(old) + 1) * period <= before then redis.call('HDEL', KEYS[1], old) end
  end
end

-- Of a slot of so many places, the first that begins no sooner than this one of a slot of others.
local function spread(index, from, to)
  local all = index * to
  return (all - all % from) / from + (all % from > 0 and 1 or 0)
end

for at = 5, #ARGV, 2 do
  local k = tonumber(ARGV[at])
  local held, last, is_guess = slot(ARGV[at + 1])
  local capacity, next, guess = slot(redis.call('HGET', KEYS[1], ARGV[at]))
  if not capacity then capacity, next, guess = held, 0, is_guess end
  local known = guess and not is_guess
  if known then capacity, next, guess = held, spread(next, capacity, held), false end
  last = spread(last, held, capacity)
  if known or last > next then keep(k, capacity, math.max(last, next), guess) end
end

local from, wanted = tonumber(ARGV[2]), tonumber(ARGV[3])
if from == 0 then return nil end
local new, _, is_guess = slot(ARGV[4])
local first = (from - from % period) / period
-- Slots whose places are leased are passed over, a hundred at a time.
for chunk = first, first + 9999, 100 do
  local numbers = {}
  for k = chunk, chunk + 99 do numbers[#numbers + 1] = whole(k) end
  for at, text in ipairs(redis.call('HMGET', KEYS[1], unpack(numbers))) do
    local k = chunk + at - 1
    local capacity, next, guess = slot(text)
    local changes = not capacity
    if changes then capacity, next, guess = new, 0, is_guess end
    if guess and not is_guess then
      capacity, next, guess, changes = new, spread(next, capacity, new), false, true
    end
    local late = math.max(from - k * period, 0)
    local place = math.max(spread(late, period, capacity), next)
    local places = math.min(math.max(capacity - place, 0), wanted)
    if places > 0 then
      keep(k, capacity, place + places, guess)
      return {k, capacity, place + places, guess and 1 or 0, place, places}
    end
    if changes then keep(k, capacity, next, guess) end
  end
end
return nil
