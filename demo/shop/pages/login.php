<?php
// Page 1: a visit begins, with a cookie of its own.
require 'shop.php';

$most = (int) getenv('SHOP_SESSIONS');
$idle = (int) getenv('SHOP_IDLE');
$id = bin2hex(random_bytes(16));
if ($most > 0) {
    // One after the other, so that two do not take the same last place.
    pg_query(database(), 'BEGIN');
    rows('SELECT pg_advisory_xact_lock(1)');
    rows('DELETE FROM visits WHERE seen < now() - make_interval(secs => $1)', [$idle]);
    $begun = rows('INSERT INTO visits SELECT $1, now() WHERE (SELECT count(*) FROM visits) < $2
                   RETURNING 1', [$id, $most]);
    pg_query(database(), 'COMMIT');
    if (!$begun) {
        refuse(503, 'The shop is full.');
    }
} else {
    rows('INSERT INTO visits VALUES ($1, now())', [$id]);
}
setcookie('shop', $id, ['path' => '/shop', 'httponly' => true, 'samesite' => 'Lax']);
show('Welcome', '<p>You are logged in. <a href="new">See what is new</a>.</p>');
