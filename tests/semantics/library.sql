-- Awkward on purpose: people without loans, loans of nobody and of strangers, loans without a number, one person with
-- thirty of them, a second column that holds people (friend, shared_with), visits that are equal in every column, ties,
-- -0.0 and NaN, genres without books, books without a genre and without loans.
CREATE TABLE genres(genre VARCHAR, label VARCHAR, shelf INTEGER);
INSERT INTO genres VALUES ('art', 'Arts', 1), ('law', 'Law', 2), ('sea', 'Seas', 2), ('zen', 'Zen', NULL);
CREATE TABLE books(book INTEGER, genre VARCHAR, price DECIMAL(6,2));
INSERT INTO books SELECT i, CASE WHEN i % 5 > 0 THEN ['art', 'law', 'sea'][1 + i % 3] END, 2.50 * i FROM range(1, 13) t(i);
CREATE TABLE people(person BIGINT, name VARCHAR, town VARCHAR, age INTEGER, score DOUBLE, friend BIGINT, joined DATE);
INSERT INTO people
SELECT i, 'name' || i, CASE WHEN i % 7 > 0 THEN ['A', 'B', 'C'][1 + i % 3] END, CASE WHEN i % 9 > 0 THEN i * 17 % 90 END,
    CASE i % 8 WHEN 0 THEN NULL WHEN 1 THEN '-0.0'::DOUBLE WHEN 2 THEN 0 WHEN 3 THEN 'nan' ELSE (i * 5 % 39) / 2 - 9 END,
    CASE WHEN i % 4 > 0 THEN 1 + i * 3 % 40 END, DATE '2020-01-01' + (i * 31 % 365)::INTEGER
FROM range(1, 41) t(i);
CREATE TABLE loans(loan BIGINT, person BIGINT, book INTEGER, days INTEGER, fee DECIMAL(6,2), lent DATE, shared_with BIGINT);
INSERT INTO loans
SELECT i, 1 + i * i % 31, CASE WHEN i % 13 > 0 THEN 1 + i * 7 % 11 END, CASE WHEN i % 10 > 0 THEN i * 11 % 28 END,
    CASE WHEN i % 6 > 0 THEN (i * 37 % 900) / 100 END, DATE '2024-01-01' + (i * 5 % 60)::INTEGER,
    CASE WHEN i % 3 > 0 THEN 1 + i * 2 % 40 END
FROM range(1, 121) t(i);
INSERT INTO loans SELECT 200 + i, 6, 1 + i % 4, i % 3, 1.25, DATE '2024-02-01' + (i // 4)::INTEGER, 1 + i % 5 FROM range(30) t(i);
INSERT INTO loans VALUES (NULL, 3, 1, 5, 2.00, '2024-03-01', NULL), (NULL, 8, 2, 6, 3.00, '2024-03-02', 3),
    (NULL, 33, NULL, NULL, NULL, NULL, 3), (300, NULL, 1, 9, 4.00, '2024-03-03', 2), (301, 77, 1, 9, 4.00, '2024-03-04', 2),
    (NULL, NULL, 5, 1, 1.00, '2024-03-05', 1);
CREATE TABLE fines(loan BIGINT, number INTEGER, amount DECIMAL(6,2), reason VARCHAR);
INSERT INTO fines
SELECT 1 + i * 3 % 40, i % 3, CASE WHEN i % 8 > 0 THEN (i * 29 % 500) / 100 END, ['late', 'torn', NULL, 'lost'][1 + i % 4]
FROM range(1, 91) t(i);
INSERT INTO fines VALUES (NULL, 1, 1.50, 'late'), (NULL, 2, 2.50, 'torn'), (300, 1, 3.50, 'late'), (999, 1, 4.50, 'lost');
CREATE TABLE visits(person BIGINT, day DATE, room VARCHAR, minutes INTEGER, warmth DOUBLE);
INSERT INTO visits
SELECT 5 + i * i % 43, DATE '2024-01-01' + (i % 50)::INTEGER, CASE WHEN i % 6 > 0 THEN ['hall', 'attic'][1 + i % 2] END,
    CASE WHEN i % 7 > 0 THEN i * 13 % 100 END, CASE i % 5 WHEN 0 THEN '-0.0'::DOUBLE WHEN 1 THEN 0 WHEN 2 THEN 'nan' WHEN 3 THEN 20.5 END
FROM range(1, 101) t(i);
INSERT INTO visits SELECT 6, DATE '2024-02-02', 'hall', 10, 0 FROM range(3) t(i);
INSERT INTO visits SELECT NULL, DATE '2024-02-02', 'hall', 10, 0 FROM range(4) t(i);
