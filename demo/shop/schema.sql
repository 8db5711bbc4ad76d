-- The shop: 2000 articles of twelve categories (600 KB of text), search counts, visits, orders.

CREATE TABLE categories (
  id    int PRIMARY KEY,
  asked int NOT NULL DEFAULT 0  -- searches whose best article was of this category
) WITH (fillfactor = 20);

CREATE TABLE articles (
  id       int PRIMARY KEY,
  category int NOT NULL REFERENCES categories,
  price    int NOT NULL,        -- cents
  stock    int NOT NULL,
  name     text NOT NULL,
  words    text NOT NULL        -- the text that is searched
);
CREATE INDEX ON articles (category);

-- One row for each visitor between login and logout.
CREATE UNLOGGED TABLE visits (
  id   text PRIMARY KEY,        -- the value of their cookie
  seen timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE orders (
  id      bigserial PRIMARY KEY,
  visit   text NOT NULL,
  article int NOT NULL REFERENCES articles,
  at      timestamptz NOT NULL DEFAULT now()
);

INSERT INTO categories SELECT generate_series(0, 11);

-- Words that no language has, but each article always the same.
INSERT INTO articles
SELECT i, i % 12, 100 + i * 7 % 9900, 1000000, 'Model ' || lpad(i::text, 4, '0'),
  'model ' || lpad(i::text, 4, '0') || ' ' ||
  (SELECT string_agg(translate(md5(i || '/' || j), '0123456789abcdef', 'aeioubdf gklmnst'), ' ')
   FROM generate_series(1, 9) AS j)
FROM generate_series(0, 1999) AS i;

ANALYZE;
