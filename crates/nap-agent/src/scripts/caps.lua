-- Good tickets of clients that may hold no more than so many: each node tells how many it has sold to a client and when
-- they end, and hears how many the others have. All times are fleet time, in seconds since 1970.
--
-- KEYS  one for each client (hash: node -> "<end>:<how many> ...")
-- ARGV  1 node   2 now   then for each client the same of this node; empty: it holds none
-- Answers for each client how many good tickets it holds of the others.
local me, now = ARGV[1], tonumber(ARGV[2])

local answers = {}
for n = 1, #KEYS do
  local key, own = KEYS[n], ARGV[n + 2]
  if own == '' then redis.call('HDEL', key, me) else redis.call('HSET', key, me, own) end
  local others, last = 0, now
  local all = redis.call('HGETALL', key)
  for at = 1, #all, 2 do
    local good = 0
    for ends, many in string.gmatch(all[at + 1], '(%d+):(%d+)') do
      if tonumber(ends) > now then
        good = good + tonumber(many)
        last = math.max(last, tonumber(ends))
      end
    end
    if good == 0 then
      redis.call('HDEL', key, all[at])
    elseif all[at] ~= me then
      others = others + good
    end
  end
  redis.call('PEXPIRE', key, string.format('%.0f', (last - now) * 1000 + 60000))
  answers[n] = math.min(others, 4294967295)
end
return answers
