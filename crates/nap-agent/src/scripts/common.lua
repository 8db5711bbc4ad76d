-- Goes before each of the scripts about tickets. All keys of a fleet have one hash tag, so those that a script makes up
-- of others lie on the same node of a cluster as those it is given.

-- The store's time, microseconds since 1970.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- A whole number as text: tostring() would round it.
local function whole(number)
  return string.format('%.0f', number)
end

-- Tells a seller what became of a ticket. Nobody may ever hear it: it is kept for ten minutes, and so are no more
-- than so many.
local function notify(list, words)
  if redis.call('LLEN', list) < 10000 then
    redis.call('RPUSH', list, words)
    redis.call('PEXPIRE', list, 600000)
  end
end

-- A mark's node, life and use (w: an access waits with the ticket, u: it is used up); nil: there is none.
local function parts(mark)
  if not mark then return nil end
  return string.match(mark, '^(%d+):(%x+)([wu])$')
end

-- Does such a mark keep others from the ticket? An access that waited in an earlier life of its node, or at one that has
-- been silent for so many microseconds, waits no more.
local function stands(node, life, use, beats, silent)
  if use == 'u' then return true end
  local heard, lives = string.match(redis.call('HGET', beats, node) or '', '^(%d+) (%x+) ')
  return lives == life and clock() - tonumber(heard) < tonumber(silent)
end

