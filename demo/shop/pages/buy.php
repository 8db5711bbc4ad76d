<?php
// Page 6: an order.
require 'shop.php';

$visit = visit();
$article = number('article', 2000);
$bought = rows('WITH taken AS (UPDATE articles SET stock = stock - 1 WHERE id = $2 AND stock > 0 RETURNING id)
                INSERT INTO orders (visit, article) SELECT $1, id FROM taken RETURNING id',
    [$visit, $article]);
if (!$bought) {
    refuse(409, 'It is sold out.');
}
show('Thank you', "<p>Your order has the number {$bought[0]['id']}.</p>");
