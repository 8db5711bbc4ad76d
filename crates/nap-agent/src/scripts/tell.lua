-- All that a node says of a gate at a time, but for leases and rights. What comes twice is carried out once.
--
-- KEYS  1 beats of the gate (hash: node -> time, life, then as in ARGV)
--       2 how far each node was heard (hash: node -> "<agent>:<number>:<notices in the last answer>")
--       3 epoch   4 notices to this node (list)
-- ARGV  1 node   2 its life   3 its agent: another one begins to count anew   4 number of the message   5 beat
--       6 1: tell of the others, too   7 milliseconds for which a mark is kept   8 microseconds after which a node is silent
--       9 what names of marks begin with   10 of notices   11 of claims   12 how many tales, n
--       n tales "<seller>:<epoch>:<slot>:<index><event>", events as in the source
--       then for each cell of half a second whose claims have changed: its number, by how many open windows,
--       by how many that begin in it
-- Answers {time, epoch, notices, which tales (from 1 on) are of tickets that were another's, beats of all that live: node, beat, ..., or nil,
--          open windows in the next 128 cells, and those that begin in them, or nil}.
local now = clock()
local me, life = ARGV[1], ARGV[2]

local epoch = redis.call('GET', KEYS[3])
if not epoch then
  epoch = whole(now)
  redis.call('SET', KEYS[3], epoch)
end

local function mark(key, index, seller, place, use, mine)
  redis.call('HSET', key, index, me .. ':' .. life .. use)
  redis.call('PEXPIRE', key, ARGV[7])
  if not mine and seller ~= me then notify(ARGV[10] .. seller, '+' .. place) end
end

local twice = {}
local function carry_out(number, tale)
  local place, event = string.match(tale, '^(.+)(%l)$')
  local seller, slot, index = string.match(place, '^(%d+):(.+):(%d+)$')
  local key = ARGV[9] .. seller .. ':' .. slot
  local node, owner, use = parts(redis.call('HGET', key, index))
  local mine = node == me and owner == life
  place = slot .. ':' .. index
  if event == 'w' or event == 'u' then
    -- An access waits with the ticket, or runs.
    if node and not mine and stands(node, owner, use, KEYS[1], ARGV[8]) then
      twice[#twice + 1] = number
      -- It is used up, though an access waits with it elsewhere: nobody is to have it if that one is gone.
      if event == 'u' and use == 'w' then mark(key, index, seller, place, event, mine) end
    else
      mark(key, index, seller, place, event, mine)
    end
  elseif mine then
    -- It left, or did not come: the ticket is good again.
    if redis.call('HDEL', key, index) == 1 and seller ~= me then notify(ARGV[10] .. seller, '-' .. place) end
  end
end

local agent, number, noticed = string.match(redis.call('HGET', KEYS[2], me) or '', '^(%x+):(%d+):(%d+)$')
if agent ~= ARGV[3] then number, noticed = '0', '0' end
if tonumber(number) < tonumber(ARGV[4]) then
  number = ARGV[4]
  -- First of all: if something below fails it is not carried out again, and nothing is counted twice.
  redis.call('HSET', KEYS[2], me, ARGV[3] .. ':' .. number .. ':0')
  -- The last answer has arrived.
  if noticed ~= '0' then redis.call('LTRIM', KEYS[4], noticed, -1) end
  local claims = 12 + tonumber(ARGV[12])
  for at = 13, claims do carry_out(at - 12, ARGV[at]) end
  local touched = {}
  for at = claims + 1, #ARGV, 3 do
    local cell = tonumber(ARGV[at])
    local part = (cell - cell % 1200) / 1200
    local key = ARGV[11] .. whole(part)
    touched[part] = key
    if ARGV[at + 1] ~= '0' then redis.call('HINCRBY', key, ARGV[at], ARGV[at + 1]) end
    if ARGV[at + 2] ~= '0' then redis.call('HINCRBY', key, 'b' .. ARGV[at], ARGV[at + 2]) end
  end
  -- Gone a minute after its ten.
  for part, key in pairs(touched) do redis.call('PEXPIREAT', key, whole((part + 1) * 600000 + 60000)) end
end

redis.call('HSET', KEYS[1], me, whole(now) .. ' ' .. life .. ' ' .. ARGV[5])
local notices = redis.call('LRANGE', KEYS[4], 0, 999)
redis.call('HSET', KEYS[2], me, ARGV[3] .. ':' .. number .. ':' .. #notices)
if ARGV[6] ~= '1' then return {now, epoch, notices, twice} end

local beats = {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local heard, beat = string.match(all[at + 1], '^(%d+) %x+ (.+)$')
  if heard and now - tonumber(heard) < tonumber(ARGV[8]) then
    beats[#beats + 1] = all[at]
    beats[#beats + 1] = beat
  end
end

local base = (now - now % 500000) / 500000
local open, begins = {}, {}
local function read(first, last)
  local key = ARGV[11] .. whole((first - first % 1200) / 1200)
  local fields = {}
  for cell = first, last do fields[#fields + 1] = whole(cell) end
  for cell = first, last do fields[#fields + 1] = 'b' .. whole(cell) end
  local counts = redis.call('HMGET', key, unpack(fields))
  local cells = last - first + 1
  for at = 1, cells do
    open[#open + 1] = counts[at]
    begins[#begins + 1] = counts[cells + at]
  end
end
local last = base + 127
local border = last - last % 1200
if base < border then
  read(base, border - 1)
  read(border, last)
else
  read(base, last)
end
return {now, epoch, notices, twice, beats, open, begins}
