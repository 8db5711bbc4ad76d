<?php
// Page 4: one article.
require 'shop.php';

visit();
$id = number('article', 2000);
[$article] = rows('SELECT id, name, price, stock, words FROM articles WHERE id = $1', [$id]);
$name = htmlspecialchars($article['name']);
show($name, '<p>' . htmlspecialchars($article['words']) . "</p><p>{$article['stock']} in stock</p>"
    . "<form method=post action=buy><input type=hidden name=article value=$id>"
    . '<button>Buy</button></form>'
    . '<form action=search><input name=q><button>Search</button></form>');
