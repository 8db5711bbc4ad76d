-- What clients owe in the fleet: each adds what it has come to owe at this node, and hears what it owes in all.
--
-- KEYS  1 the last batch of each node (hash: node -> its number)
--       then one for each client ("<paid> <back> ", three times: when a debt is paid, microseconds since 1970, and what
--       was given back of it so far)
-- ARGV  1 node   2 number of the batch: one that comes again is added once
--       then for each client ten numbers of microseconds: by how much longer each of three debts takes to be paid (below
--       0: given back), how long each takes at this node, what this node has heard was given back of each, and for how
--       long they have grown (below 0: they may have grown while the store was away)
-- Answers for each client six: how long each debt takes to be paid, and what was given back of it.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local PARTS = '^' .. string.rep('(%d+) (%d+) ', 3) .. '$'
-- A debt that is paid is remembered for so many milliseconds: growth that is told late may have begun before.
local REST = 300000
-- No node owes more than the fleet, but by the way to the store. So much more was forgotten here.
local FORGOTTEN = 1000000

local again = redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2]
if not again then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end

local answers = {}
for n = 2, #KEYS do
  local key, at = KEYS[n], 10 * (n - 2) + 2
  local age = tonumber(ARGV[at + 10])
  local kept = {string.match(redis.call('GET', key) or '', PARTS)}
  local known, changed, last, text = #kept > 0, false, now, ''
  for lane = 1, 3 do
    local paid = tonumber(kept[2 * lane - 1] or 0)
    local back = tonumber(kept[2 * lane] or 0)
    local before, grown = paid, again and 0 or tonumber(ARGV[at + lane])
    if grown < 0 then
      paid, back = math.max(paid + grown, 0), back - grown
    elseif grown > 0 and age >= 0 then
      paid = math.max(paid, now - age) + grown
    end
    -- What others have given back, and this node has not heard of, is part of its own.
    local unheard = math.max(back + math.min(grown, 0) - tonumber(ARGV[at + 6 + lane]), 0)
    local own = now + tonumber(ARGV[at + 3 + lane]) - unheard
    if own > now and (own > paid + FORGOTTEN or age < 0 or not known) then paid = math.max(paid, own) end
    changed = changed or paid ~= before
    last = math.max(last, paid)
    text = text .. string.format('%.0f %.0f ', paid, back)
    answers[#answers + 1] = math.max(paid - now, 0)
    answers[#answers + 1] = back
  end
  if changed then
    redis.call('SET', key, text, 'PX', string.format('%.0f', math.ceil((last - now) / 1000) + REST))
  end
end
return answers
