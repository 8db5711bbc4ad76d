<?php
// Page 7: the visit is over, and mod_nap is told so.
require 'shop.php';

rows('DELETE FROM visits WHERE id = $1', [visit()]);
setcookie('shop', '', ['path' => '/shop', 'expires' => 1]);
header('Nap-Session: end');
show('Good bye', '<p>Come again.</p>');
