-- Columns that share names between tables, and names that only quotes can write. Every column has a sum of its own.
CREATE TABLE r(k INTEGER, a INTEGER, c INTEGER, "Odd name" INTEGER, "select" INTEGER, t INTEGER);
INSERT INTO r SELECT i, (i * 2 + 4) % 5, i % 2, (i + 2) % 5, (i * 2) % 5, i % 3 FROM range(5) x(i);
CREATE TABLE t(uid BIGINT, k INTEGER, a INTEGER, b INTEGER, n INTEGER, "odd Name" INTEGER, "group" INTEGER, "ä" INTEGER);
INSERT INTO t SELECT i, i % 5, i * i % 5, i // 13, i % 3, i % 4, i // 17, i // 11 % 2 FROM range(1, 61) x(i);
CREATE TABLE u(id BIGINT, uid BIGINT, a INTEGER, d INTEGER);
INSERT INTO u SELECT i, 1 + i * 7 % 50, i % 4, i // 20 FROM range(1, 91) x(i);
