CREATE TABLE cities(city VARCHAR, land VARCHAR);
INSERT INTO cities VALUES ('Bath', 'A'), ('Cork', 'B'), ('Dijon', 'C'), ('Essen', NULL);
CREATE TABLE shops(shop INTEGER, city VARCHAR, size VARCHAR);
INSERT INTO shops VALUES (1, 'Bath', 'small'), (2, 'Bath', 'large'), (3, 'Cork', 'small'), (4, 'Dijon', 'large'), (5, NULL, 'small'), (6, 'Essen', 'small');
CREATE TABLE goods(good VARCHAR, brand VARCHAR, price DECIMAL(8,2));
INSERT INTO goods VALUES ('ale', 'Fox', 3), ('bread', 'Elk', 2), ('cheese', 'Elk', 7), ('dates', NULL, 5), ('eggs', 'Fox', 1);
CREATE TABLE stock(shop INTEGER, good VARCHAR, amount INTEGER);
INSERT INTO stock SELECT shop, good, (shop * 7 + length(good)) % 9 FROM shops, goods WHERE (shop + length(good)) % 3 > 0 OR shop = 1;
CREATE TABLE people(uid BIGINT, phone VARCHAR, city VARCHAR, tier VARCHAR, born DATE);
INSERT INTO people
SELECT i, (10 + i % 25) || '-' || (i * 37 % 999), CASE i % 6 WHEN 0 THEN 'Bath' WHEN 1 THEN 'Cork' WHEN 2 THEN 'Dijon' WHEN 3 THEN 'Essen' END,
    CASE i % 4 WHEN 0 THEN 'gold' WHEN 1 THEN 'iron' WHEN 2 THEN 'tin' END, DATE '1950-01-01' + (i * 241)::INTEGER
FROM range(1, 91) t(i);
CREATE TABLE sales(sale BIGINT, uid BIGINT, shop INTEGER, good VARCHAR, channel VARCHAR, day DATE, pieces INTEGER, paid DOUBLE);
INSERT INTO sales
SELECT row_number() OVER (ORDER BY i), 1 + i * i % 90, CASE WHEN i % 13 > 0 THEN shop END, CASE WHEN i % 17 > 0 THEN good END,
    CASE i % 4 WHEN 0 THEN 'web' WHEN 1 THEN 'shop' WHEN 2 THEN 'phone' END,
    CASE WHEN i % 19 > 0 THEN DATE '2023-01-01' + (i * 5 % 730)::INTEGER END, 1 + i % 9, i % 83 / 4
FROM range(400) t(i) JOIN (SELECT shop, good, row_number() OVER (ORDER BY shop, good) AS n FROM stock) k ON k.n = 1 + i % (SELECT count(*) FROM stock);
