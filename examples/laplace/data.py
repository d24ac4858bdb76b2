"""Builds the small DuckDB file of the seven Laplace cases: people that never were, known by numbers only.

    python examples/laplace/data.py build/laplace.duckdb

Every value is a formula of a number, so the file is the same everywhere and whoever reads this knows the exact
answers. `people` has one row per person; `things` has one person with ten; `ratings` has scores beyond the scale;
`readings` has NaN and both infinities. A file is written beside its place and renamed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import duckdb

DATA = """\
-- 1,000 people. Nobody is 90 or older: the last bar of the histogram is empty.
CREATE TABLE people AS
SELECT i AS person_id, (i * i % 90)::INTEGER AS age FROM range(1, 1001) t(i);

-- 500 people with 0 to 3 things each, and person 1001 with ten.
CREATE TABLE things AS
SELECT i AS person_id, i * 10 + j AS thing_id FROM range(1, 501) p(i), range(3) t(j) WHERE j < i % 4
UNION ALL SELECT 1001, 10010 + j FROM range(10) t(j);

-- 500 people with 1 to 3 ratings each, from -10 to 10; person 13 does not keep to that.
CREATE TABLE ratings AS
SELECT i AS person_id, j AS film_id, ((i * 7 + j * 11) % 21 - 10)::INTEGER AS score
FROM range(1, 501) p(i), range(1, 4) t(j) WHERE j <= 1 + i % 3;
UPDATE ratings SET score = 1000000 WHERE person_id = 13;

-- 200 people with two readings each, from 0 to 50; four of them have a broken instrument.
CREATE TABLE readings AS
SELECT i AS person_id, j AS day, (i * 13 + j * 29) % 500 / 10.0::DOUBLE AS reading
FROM range(1, 201) p(i), range(2) t(j);
UPDATE readings SET reading = CASE person_id
    WHEN 21 THEN 'nan'::DOUBLE WHEN 22 THEN 'inf'::DOUBLE WHEN 23 THEN '-inf'::DOUBLE WHEN 24 THEN 1e308
    ELSE reading END;
"""


def build(target: Path) -> None:
    """Make the DuckDB file `target`, in place of an older one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with duckdb.connect(str(beside)) as connection:
            connection.execute(DATA)
            connection.execute("CHECKPOINT")
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
        beside.with_name(beside.name + ".wal").unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the DuckDB file of the seven Laplace cases.")
    parser.add_argument("target", type=Path, help="the DuckDB file to write")
    build(parser.parse_args().target)


if __name__ == "__main__":
    main()
