<?php
// What all pages of the shop share: the database, the visit, the frame.

// Something elsewhere that each page waits for, if measurements must not be processor bound.
usleep(1000 * (int) getenv('SHOP_SLEEP_MS'));

// A connection of this PHP process, kept from request to request.
function database(): PgSql\Connection {
    $db = @pg_pconnect(getenv('SHOP_DATABASE'));
    if (!$db) {
        refuse(500, 'The database cannot be reached.');
    }
    return $db;
}

// Rows of a query.
function rows(string $sql, array $values = []): array {
    $result = @pg_query_params(database(), $sql, $values);
    return $result ? pg_fetch_all($result) : refuse(500, 'The database did not do it.');
}

function refuse(int $status, string $why): never {
    http_response_code($status);
    show('Sorry', "<p>$why</p>");
    exit;
}

// The visit that the cookie names, or the end of the request: only visitors who have logged in may be here.
function visit(): string {
    $id = $_COOKIE['shop'] ?? '';
    $known = is_string($id) && preg_match('/^[0-9a-f]{32}$/', $id)
        && rows('UPDATE visits SET seen = now() WHERE id = $1 RETURNING 1', [$id]);
    if (!$known) {
        refuse(403, 'Please <a href="login">log in</a> first.');
    }
    return $id;
}

function number(string $name, int $modulus): int {
    return abs((int) ($_REQUEST[$name] ?? 0)) % $modulus;
}

function show(string $title, string $content): void {
    header('Content-Type: text/html; charset=utf-8');
    header('Cache-Control: no-store');
    $links = '';
    foreach (['login', 'new', 'list', 'article', 'search', 'logout'] as $page) {
        $links .= "<a href=\"$page\">$page</a> ";
    }
    echo "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>$title</title>",
        "<nav>$links</nav><h1>$title</h1>$content</html>\n";
}

function table(array $articles): string {
    $rows = '';
    foreach ($articles as $article) {
        $name = htmlspecialchars($article['name']);
        $price = number_format($article['price'] / 100, 2);
        $rows .= "<tr><td><a href=\"article?article={$article['id']}\">$name</a><td>$price";
    }
    return "<table>$rows</table>";
}
