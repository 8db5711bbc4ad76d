-- A holder comes to a node: is the ticket still good? If so it is this node's, until it says otherwise.
--
-- KEYS  1 marks of the ticket's slot (hash: index -> mark)   2 beats of its gate (hash: node -> time, life, ...)
--       3 notices to its seller (list)
-- ARGV  1 index   2 node   3 its life   4 notice; empty: the ticket is its own
--       5 milliseconds for which a mark is kept   6 microseconds after which a node is silent
-- Answers 'mine', 'used', 'waits'.
local node, life, use = parts(redis.call('HGET', KEYS[1], ARGV[1]))
-- Also if it was used here: a node that asks has forgotten it.
if use == 'u' then return 'used' end
local mine = node == ARGV[2] and life == ARGV[3]
if node and not mine and stands(node, life, use, KEYS[2], ARGV[6]) then return 'waits' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3] .. 'w')
-- With each mark anew: the slot's last ticket ends later than its first.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
if not mine and ARGV[4] ~= '' then notify(KEYS[3], ARGV[4]) end
return 'mine'
