<?php
// Page 2: the newest articles, and what others search for.
require 'shop.php';

visit();
$asked = rows('SELECT id, asked FROM categories ORDER BY asked DESC, id LIMIT 3');
$links = '';
foreach ($asked as $category) {
    $links .= "<li><a href=\"list?category={$category['id']}\">Category {$category['id']}</a>";
}
show('New', table(rows('SELECT id, name, price FROM articles ORDER BY id DESC LIMIT 20'))
    . "<h2>Others look for</h2><ul>$links</ul>");
