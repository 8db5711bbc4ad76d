-- A shared limit, split into rights: what a node holds is what it says, and more is given while there is some.
--
-- KEYS  1 rights of the gate (hash: node -> "<rights> <wants> <heard> <limit>", "of <node>" -> how far it was heard,
--         "at <node>" -> where visitors are, run, learns, presses, heard)
-- ARGV  1 node   2 its agent: another one begins to count anew   3 number of the message   4 rights it holds
--       5 accesses that run and wait there   6 how many more it asks for   7 limit it is configured with
--       8 run of this server   then microseconds: 9 after which a silent node has none   10 for which nothing is given by a
--       server that may lack what was given last   11 for which an ask that found nothing presses on all
--       12 within which somebody is heard, unless it was the store that was away   13 parts of a million of all visitors
--       that are there; 0: as it said before
-- Answers {rights given, those to be given back at once, the node's fair share, does somebody want what is not there (0, 1)}.
local now = clock()
local me = ARGV[1]
local state, nodes = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local rights, wants, heard, limit = string.match(all[at + 1], '^(%d+) (%d+) (%d+) (%d+)$')
  if rights then
    nodes[all[at]] = {
      rights = tonumber(rights), wants = tonumber(wants), heard = tonumber(heard), limit = tonumber(limit),
    }
  else
    state[all[at]] = all[at + 1]
  end
end
local function number(name) return tonumber(state[name] or '0') end
local learns, presses, before = number('learns'), number('presses'), number('heard')
if state.run ~= ARGV[8] then learns = now + tonumber(ARGV[10]) end

local function write(node, held)
  local words = { whole(held.rights), whole(held.wants), whole(held.heard), whole(held.limit) }
  redis.call('HSET', KEYS[1], node, table.concat(words, ' '))
end

-- Nobody was silent while nobody was heard.
local gap = now - before
local was_away = before ~= 0 and gap > tonumber(ARGV[12])
for node, held in pairs(nodes) do
  if was_away then held.heard = held.heard + gap end
  if now - held.heard >= tonumber(ARGV[9]) then
    redis.call('HDEL', KEYS[1], node)
    nodes[node] = nil
  elseif was_away then
    write(node, held)
  end
end

local function sums()
  local limit, rights = tonumber(ARGV[7]), 0
  for _, held in pairs(nodes) do
    limit = math.min(limit, held.limit)
    rights = rights + held.rights
  end
  return limit, rights
end

local granted, over = 0, 0
local agent, last = string.match(state['of ' .. me] or '', '^(%x+) (%d+)$')
if agent ~= ARGV[2] or tonumber(last) < tonumber(ARGV[3]) then
  local asks = tonumber(ARGV[6])
  local held = { rights = tonumber(ARGV[4]), wants = tonumber(ARGV[5]), heard = now, limit = tonumber(ARGV[7]) }
  nodes[me] = held
  local limit, rights = sums()
  over = math.min(math.max(rights - limit, 0), held.rights)
  if asks > 0 then
    if now >= learns then granted = math.min(asks, math.max(limit - rights, 0)) end
    if granted < asks then presses = now + tonumber(ARGV[11]) end
    held.rights = held.rights + granted
  end
  write(me, held)
  redis.call('HSET', KEYS[1], 'of ' .. me, ARGV[2] .. ' ' .. ARGV[3])
  if ARGV[13] ~= '0' then
    redis.call('HSET', KEYS[1], 'at ' .. me, ARGV[13])
    state['at ' .. me] = ARGV[13]
  end
end
redis.call('HSET', KEYS[1], 'run', ARGV[8], 'learns', whole(learns), 'presses', whole(presses), 'heard', whole(now))

-- Max-min by weight: those who are content with the least for their weight first, as what they do not want is the others'. All
-- who want some have one, if there are as many. A weight that is not known is the mean of the others.
local known, sum = 0, 0
for node in pairs(nodes) do
  local weight = number('at ' .. node)
  if weight > 0 then known, sum = known + 1, sum + weight end
end
local mean = math.max(math.floor(sum / math.max(known, 1)), 1)
local order, weights, wanting = {}, 0, 0
for node, held in pairs(nodes) do
  local weight = number('at ' .. node)
  if weight == 0 then weight = mean end
  order[#order + 1] = { node = tonumber(node), wants = held.wants, weight = weight }
  weights = weights + weight
  if held.wants > 0 then wanting = wanting + 1 end
end
table.sort(order, function(a, b)
  local by_a, by_b = a.wants * b.weight, b.wants * a.weight
  if by_a ~= by_b then return by_a < by_b end
  return a.node > b.node
end)
local fair, left = 0, (sums())
for _, one in ipairs(order) do
  local least, most = 0, left
  if left >= wanting then least, most = 1, left - math.max(wanting - 1, 0) end
  local share = math.floor(left * one.weight / weights)
  share = math.min(one.wants, math.max(least, math.min(share, math.max(most, least))))
  if one.wants > 0 then wanting = wanting - 1 end
  if one.node == tonumber(me) then fair = share end
  left, weights = left - share, weights - one.weight
end
return {granted, over, fair, now < presses and 1 or 0}
