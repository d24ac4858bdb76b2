"""The tables that the cases are about, and the worst person who can be in them.

The tables are those of the clinic without its patient 7; the person, 7 again, has fifty rows in each private table:
every awkward value of each type, keys of others, a clinic that nobody else has, and words and numbers that stand
nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.conftest import CLINIC_DATA, CLINIC_POLICY

PERSON = 7
TABLES = (
    CLINIC_DATA.strip().removesuffix(";")
    + f"""
;DELETE FROM patients WHERE uid = {PERSON};DELETE FROM visits WHERE uid = {PERSON}"""
)

NEEDLES = (
    "Xanthippe",
    "Quetzalcoatl",
    "Zugzwang",
    "77.1357",
    "48.61",
    "2031-07",
    "7261534",
    "918273645",
    "R9",
    "1e308",
)
"""What only private rows hold, the person's or somebody else's: never in a message, a schema or an EXPLAIN."""

_COSTS = "['nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, NULL, 1e308, -1e308, 5e-324, 77.1357, 5000, 5000, 100, 0]"
_DAYS = "[DATE '2031-07-19', NULL, DATE 'infinity', DATE '0001-01-01', DATE '2024-02-29']"
_TIMES = "[TIMESTAMP '2031-07-19 01:02:03', NULL, TIMESTAMP '-infinity', TIMESTAMP '2024-03-01 08:00:00']"
ROWS = f"""\
INSERT INTO patients SELECT {PERSON}, ['Xanthippe-' || i, NULL, 'name-2', '12', ''][1 + i % 5],
    [30, 120, -1, 7261534, NULL, 2147483647][1 + i % 6], ['R1', 'R2', NULL, 'Zugzwang', 'R3'][1 + i % 5],
    {_COSTS}[1 + i % 12], {_DAYS}[1 + i % 5]
FROM range(50) t(i);
INSERT INTO visits SELECT [i, 1, 918273645, NULL, 9223372036854775807][1 + i % 5], {PERSON},
    ['Quetzalcoatl', 'clinic-1', NULL, 'Zugzwang'][1 + i % 4], [48.61, 0, NULL, -99999999.99, 50][1 + i % 5],
    {_TIMES}[1 + i % 4]
FROM range(50) t(i)"""

POLICY = CLINIC_POLICY[CLINIC_POLICY.index("[tables.patients]") :].format()
DELTA = "0.9"
"""Of the policy with keys that are selected privately; it also limits rows per group."""
KEYED = re.sub(r"^max_groups_per_unit = 1", r"\g<0>\nmax_rows_per_group = 3", POLICY, flags=re.MULTILINE)


def found(texts: Sequence[str], asked: str) -> list[str]:
    """The needles in what is told, but for those that were asked for."""
    return [n for n in NEEDLES if n not in asked and any(n in text for text in texts)]
