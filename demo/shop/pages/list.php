<?php
// Page 3: the articles of a category.
require 'shop.php';

visit();
$category = number('category', 12);
show("Category $category", table(rows(
    'SELECT id, name, price FROM articles WHERE category = $1 ORDER BY price LIMIT 50', [$category])));
