-- Good tickets of clients that may hold no more than so many: each node tells how many it has sold to a client and when
-- they end, and hears how many the others have.
--
-- KEYS  one for each client (hash: node -> "<end>:<how many> ...", ends in seconds since 1970)
-- ARGV  1 node   then for each client the same of this node; empty: it holds none
-- Answers for each client how many good tickets it holds of the others.
local now = tonumber(redis.call('TIME')[1])

local answers = {}
for n = 1, #KEYS do
  local key, own = KEYS[n], ARGV[n + 1]
  if own == '' then
    redis.call('HDEL', key, ARGV[1])
  else
    redis.call('HSET', key, ARGV[1], own)
  end
  local others, last = 0, 0
  local all = redis.call('HGETALL', key)
  for at = 1, #all, 2 do
    local good = 0
    for ends, many in string.gmatch(all[at + 1], '(%d+):(%d+)') do
      if tonumber(ends) > now then
        good = good + tonumber(many)
        last = math.max(last, tonumber(ends))
      end
    end
    if all[at] ~= ARGV[1] then
      others = others + good
      if good == 0 then redis.call('HDEL', key, all[at]) end
    end
  end
  if last > 0 then redis.call('PEXPIREAT', key, string.format('%.0f', last * 1000)) end
  answers[n] = others
end
return answers
