<?php
// Page 5, the heavy one: all articles compared with what is looked for, three letters at a time.
//
// It contends as such pages do. It needs a processor and some tens of megabytes for its tables of
// letters. It counts searches in the same transaction in which it read the articles, so the database
// refuses it if another search has counted there meanwhile. Then it starts again, as PostgreSQL's
// manual recommends (13.2.2). The more searches run at once, the more of them are in vain.
require 'shop.php';

function trigrams(string $text): array {
    $found = [];
    for ($i = strlen($text) - 3; $i >= 0; $i--) {
        $found[substr($text, $i, 3)] = true;
    }
    return $found;
}

// The ten best of all articles, best first.
function best(array $articles, array $wanted): array {
    $tables = [];
    foreach ($articles as $i => $article) {
        $tables[$i] = trigrams($article['words']);
    }
    $scores = [];
    foreach ($tables as $i => $table) {
        $common = count(array_intersect_key($wanted, $table));
        $scores[$i] = $common / (count($wanted) + count($table) - $common);
    }
    arsort($scores);
    return array_map(fn ($i) => $articles[$i], array_slice(array_keys($scores), 0, 10));
}

visit();
// Or a search engine elsewhere does the work, and this page only waits for it.
$elsewhere = (int) getenv('SHOP_SEARCH_MS');
if ($elsewhere > 0) {
    usleep(1000 * $elsewhere);
    show('Search', table(rows('SELECT id, name, price FROM articles ORDER BY id LIMIT 10')));
    exit;
}
$rounds = max(1, (int) getenv('SHOP_ROUNDS'));
$query = strtolower(substr((string) ($_GET['q'] ?? ''), 0, 100));
$wanted = trigrams(' ' . (preg_match('/^\d{1,9}$/', $query) ? sprintf('%04d', $query % 2000) : $query) . ' ');
$db = database();
for ($tries = 1;; $tries++) {
    pg_query($db, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
    $articles = rows('SELECT id, name, price, category, words FROM articles');
    for ($round = 0; $round < $rounds; $round++) {
        $hits = best($articles, $wanted);
    }
    $counted = @pg_query_params($db, 'UPDATE categories SET asked = asked + 1 WHERE id = $1',
        [$hits[0]['category']]);
    if ($counted && @pg_query($db, 'COMMIT')) {
        break;
    }
    pg_query($db, 'ROLLBACK');
}
header("Shop-Tries: $tries");
show('Search', table($hits) . "<p>Searched $tries times.</p>");
