CREATE TABLE regions(region VARCHAR, label VARCHAR, country VARCHAR);
INSERT INTO regions VALUES ('R1', 'North', 'X'), ('R2', 'South', 'X'), ('R3', 'East', 'Y'), ('R4', 'West', NULL), ('R5', 'Isle', 'Z');
CREATE TABLE drugs(drug VARCHAR, class VARCHAR, price DECIMAL(8,2));
INSERT INTO drugs SELECT 'D' || i, CASE WHEN i < 3 THEN 'A' ELSE 'B' END, 10 * i FROM range(5) t(i);
CREATE TABLE patients(uid BIGINT, name VARCHAR, age INTEGER, region VARCHAR, sex VARCHAR, cost DOUBLE, weight DECIMAL(6,2), born DATE, smoker BOOLEAN);
INSERT INTO patients
SELECT i, chr(65 + i::INTEGER % 26) || 'name' || i, CASE WHEN i % 13 > 0 THEN i % 91 END, CASE WHEN i % 11 > 0 THEN 'R' || (1 + i % 4) END,
    CASE WHEN i % 17 > 0 THEN CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END END, CASE WHEN i % 7 > 0 THEN (i * 37 % 400) / 4 END,
    40 + i * 1.13, DATE '1950-01-15' + (i * 97)::INTEGER, CASE WHEN i % 10 > 0 THEN i % 4 = 0 END
FROM range(1, 121) t(i);
CREATE TABLE visits(visit_id BIGINT, uid BIGINT, kind VARCHAR, fee DECIMAL(10,2), minutes INTEGER, seen DATE, stamp TIMESTAMP);
INSERT INTO visits
SELECT i, 1 + i * i % 120, CASE i % 4 WHEN 0 THEN 'first' WHEN 1 THEN 'next' WHEN 2 THEN 'last' END,
    CASE WHEN i % 9 > 0 THEN (i * 613 % 9999) / 100 END, i * 7 % 240,
    CASE WHEN i % 31 > 0 THEN DATE '2024-01-01' + (i % 360)::INTEGER END,
    TIMESTAMP '2024-01-01 08:00:00' + to_hours((i * 5)::INTEGER)
FROM range(1, 401) t(i);
CREATE TABLE treatments(visit_id BIGINT, drug VARCHAR, dose INTEGER);
INSERT INTO treatments SELECT 1 + i // 2, 'D' || (i % 5), CASE WHEN i % 19 > 0 THEN i * 31 % 1000 END FROM range(0, 700) t(i);
CREATE TABLE beds(ward VARCHAR, used BOOLEAN);
INSERT INTO beds SELECT CASE i % 3 WHEN 0 THEN 'A' WHEN 1 THEN 'B' END, i % 2 = 0 FROM range(30) t(i);
