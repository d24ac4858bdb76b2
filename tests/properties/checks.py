"""The check of the sensitivity property: what two snapshots that differ in one unit may differ in.

Norms, limits and slots are read from the plan, never worked out again from the policy. Whatever does not hold is a
`Violation`, which begins with the number of the property: (i) rows, (ii) norms, (iii) keys, (v) what is said, (vi)
circumstances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from math import erfc, exp
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dpsql.compile import rewrite, steps
from dpsql.compile.plan import Choosing, PrivatePlan, ReleasePlan, Selection
from dpsql.compile.relations import scans, select_from, unit
from dpsql.compile.slots import Slot, SlotKind
from dpsql.compile.trees import aliased
from dpsql.explain import explain
from dpsql.privacy.mechanisms import DiscreteLaplace, Law, RoundedNormal
from dpsql.vault import noise
from tests.properties import worlds
from tests.properties.asked import Asked
from tests.properties.differences import Difference, Violation
from tests.properties.sides import Bench, Ready, Side, run
from tests.properties.worlds import Database, Removed, Row, Terms, World

Vector = dict[tuple[object, ...], tuple[int, ...]]
"""Group key -> the components of a slot."""

Noised = tuple[Law, list[int]]
"""Noise, and what it is added to."""


def keys_of(table: pa.Table, plan: ReleasePlan) -> list[tuple[object, ...]]:
    """The keys of a result. A float is written out: zeros have signs, and NaN is not equal to itself."""
    columns = [table.column(name).to_pylist() for name in plan.release.key_names]
    rows = [tuple(repr(x) if isinstance(x, float) else x for x in row) for row in zip(*columns, strict=True)]
    if not columns:
        rows = [()]
    if len(set(rows)) != len(rows) or len(rows) != table.num_rows:
        raise Violation("a key stands twice")
    if plan.keys is not None and len(rows) > plan.keys:
        raise Violation(f"there are {len(rows)} keys, and the plan counts {plan.keys}")
    return rows


def vectors(table: pa.Table, plan: ReleasePlan) -> list[Vector]:
    """The vector of each slot, as the noise is added to it."""
    rows, found = keys_of(table, plan), []
    for i, slot in enumerate(plan.slots, 1):
        parts = list(zip(*(c.tolist() for c in noise._components(table, i, slot, plan.limits)), strict=True))
        found.append(dict(zip(rows, parts, strict=True)))
    return found


def difference(big: Vector, small: Vector) -> Vector:
    """What moved, absent keys as 0; keys that did not move are left out."""
    moved = {
        k: tuple(a - b for a, b in zip(part, small.get(k, (0,) * len(part)), strict=True)) for k, part in big.items()
    }
    return {k: part for k, part in moved.items() if any(part)}


def check_moves(plan: ReleasePlan, larger: pa.Table, smaller: pa.Table, alone: pa.Table) -> None:
    """Properties (ii) and (iii) of one release."""
    if larger.schema != smaller.schema:
        raise Violation("(v) the result has another schema")
    if plan.selection is not None:
        check_keys(plan, plan.selection, larger, smaller, alone)
    elif keys_of(larger, plan) != keys_of(smaller, plan):
        raise Violation("(v) the result has other keys")
    if plan.choosing is not None:
        check_utilities(plan, plan.choosing, larger, smaller)
    trio = zip(plan.slots, *(vectors(t, plan) for t in (larger, smaller, alone)), strict=True)
    for slot, big, small, alone_ in trio:
        moved = difference(big, small)
        l1 = sum(abs(x) for part in moved.values() for x in part)
        linf = max((abs(x) for part in moved.values() for x in part), default=0)
        squares = sum(x * x for part in moved.values() for x in part)
        if l1 > slot.norms.l1 or linf > slot.norms.linf or squares > slot.norms.l2_squared:
            moves = f"{l1} in L1, the root of {squares} in L2, {linf} at most"
            raise Violation(f"(ii) {slot.kind} moved by {moves}; the plan says {slot.norms}")
        if len(moved) > slot.norms.keys:
            raise Violation(f"(iii) {slot.kind}: {len(moved)} keys changed; the plan says {slot.norms.keys}")
        own = difference(alone_, {})
        if slot.kind is SlotKind.DISTINCT:  # of the values that a unit brings, others may hold some, too
            added = all(0 < part[0] <= own.get(k, (0,))[0] for k, part in moved.items())
            if not added or sum(n for (n,) in own.values()) > slot.norms.l1:
                raise Violation(f"(iii) {slot.kind} moved by {moved}, and the unit's rows alone give {own}")
        elif moved != own:
            raise Violation(f"(iii) {slot.kind} moved by {moved}, and the unit's rows alone give {own}")


def check_utilities(plan: ReleasePlan, choosing: Choosing, larger: pa.Table, smaller: pa.Table) -> None:
    """Property (iv): the utilities that the choice is handed move by at most the sensitivity, and all in one direction
    where it is charged half; which candidates there are does not change."""
    big, small = (noise._utilities(table, plan, choosing) for table in (larger, smaller))
    if big.keys() != small.keys():
        raise Violation("(iv) there are other candidates")
    moved = [big[i] - small[i] for i in big]
    if any(abs(m) > choosing.sensitivity for m in moved):
        raise Violation(f"(iv) utilities moved by {moved}; the plan says {choosing.sensitivity}")
    if choosing.one_sided and min(moved, default=0) < 0 < max(moved, default=0):
        raise Violation(f"(iv) utilities moved both ways: {moved}")


def check_keys(plan: ReleasePlan, chosen: Selection, larger: pa.Table, smaller: pa.Table, alone: pa.Table) -> None:
    """Property (iii) of private keys, on the count of units that decides on them: what vanishes is held by the unit
    alone, no count moves by more than 1, and at most `touched` of them do."""

    counts = "units" if chosen.counted is None else f"n{plan.slots.index(chosen.counted) + 1}"

    def units(table: pa.Table) -> Vector:
        return {k: (n,) for k, n in zip(keys_of(table, plan), table.column(counts).to_pylist(), strict=True)}

    big, small, own = units(larger), units(smaller), units(alone)
    if [k for k in big if k in small] != list(small):
        raise Violation("(iii) keys appear, or stand in another order, where a unit leaves")
    vanished = [k for k in big if k not in small]
    if any(big[k] != (1,) or own.get(k) != (1,) for k in vanished):
        raise Violation(f"(iii) keys vanish that others hold too: {vanished}")
    moved = difference(big, small)
    if any(part != (1,) for part in moved.values()):
        raise Violation(f"(iii) one unit moves the number of units: {moved}")
    if max(len(moved), len(vanished)) > chosen.touched:
        raise Violation(f"(iii) one unit touches {len(moved)} keys; the plan says {chosen.touched}")
    if moved != difference(own, {}):
        raise Violation(f"(iii) the number of units moved by {moved}, and the unit alone gives {own}")


def check_same_outcome(one: Asked, a: Side, b: Side) -> None:
    """Property (v): all that is said before the engine is asked."""
    first, second = a.outcome(one), b.outcome(one)
    if isinstance(first, str) or isinstance(second, str):
        if first != second:
            raise Violation(f"(v) another outcome: {first} against {second}")
        return
    left, right = first.compiled, second.compiled
    prices = [(c.plan.epsilon, c.plan.delta) for c in (left, right)]
    if left.rewritten != right.rewritten or prices[0] != prices[1]:
        raise Violation("(v) another plan")
    if explain(left.plan, left.rewritten) != explain(right.plan, right.rewritten):
        raise Violation("(v) another EXPLAIN")


def check_noise(one: Asked, side: Side, patch: pytest.MonkeyPatch) -> list[str]:
    """The vault noises exactly the vectors that are measured here, with the noise that the plan names (that it is
    enough is `check_price`), and nothing else leaves it; of private keys only those that are shown, but for the count
    that decides. Returns the schema of the answer."""
    ready = side.outcome(one)
    assert isinstance(ready, Ready)
    seen: list[Noised] = []
    shown: list[pa.Table] = []
    chosen: list[tuple[object, ...]] = []
    choose_plain = noise.choose
    add_plain, select_plain, seal_plain = noise._add, noise._selected, rewrite.seal_release

    def add(exact: noise.Integers, law: noise.Law) -> noise.Integers:
        seen.append((law, [int(x) for x in exact]))
        return add_plain(exact, law)

    def selected(*of: Any) -> pa.Table:
        shown.append(select_plain(*of))
        return shown[-1]

    def choose(name: str, utilities: Sequence[int], moved: int, epsilon: Fraction, winners: int) -> list[int]:
        chosen.append((name, winners, epsilon, [Fraction(u, moved) for u in utilities]))
        return choose_plain(name, utilities, moved, epsilon, winners)

    names = count()
    with patch.context() as inner:
        inner.setattr(noise, "_add", add)
        inner.setattr(noise, "choose", choose)
        inner.setattr(noise, "_selected", selected)
        inner.setattr("dpsql.session.seal_release", lambda plan, _: seal_plain(plan, one.salt))
        inner.setattr("dpsql.session.Reads.of", lambda _, plan, __: ready.read(plan))
        inner.setattr(side.session._repeats, "_find", lambda _: {})  # what is stored would not be drawn, nor would
        inner.setattr("dpsql.repeats.question.name_of", lambda base, _: f"{base}.{next(names)}")  # the second of twins
        side.set(one)
        answer = side.session.execute(one.sql)
        price = side.session.settings.request
    expected: list[Noised] = []
    choices: list[tuple[object, ...]] = []
    for plan, table in zip(ready.plans, side.exact(one), strict=True):
        decides = plan.selection.counted if plan.selection is not None else None
        left = shown.pop(0) if plan.selection is not None else table
        if decides is not None:
            expected += noised(decides, vectors(table, plan)[plan.slots.index(decides)])
        if plan.choosing is not None:  # no number of a choice leaves, nor has noise
            c, utilities = plan.choosing, noise._utilities(table, plan, plan.choosing).values()
            choices.append((c.mechanism, c.winners, plan.share, [u / c.sensitivity for u in utilities]))
            continue
        for slot, vector in zip(plan.slots, vectors(left, plan), strict=True):
            expected += noised(slot, vector) if slot != decides else []
    assert answer.receipt is not None
    assert ready.compiled.plan.epsilon == answer.receipt.epsilon
    assert sum(plan.share for plan in ready.plans) == price.epsilon
    charged = sum(p.share / 2 if p.choosing is not None and p.choosing.one_sided else p.share for p in ready.plans)
    assert charged == answer.receipt.epsilon
    assert chosen == choices, f"{one}: a choice weighs other utilities than are measured, or at another epsilon"
    assert ready.compiled.plan.delta == answer.receipt.delta in (0, price.delta)
    check_price(ready.compiled.plan)
    assert seen == expected, f"{one}: noise is not added to what is measured, or at another scale"
    return [f"{f.name} {f.type}" for f in answer.table.schema]


def noised(slot: Slot, vector: Vector) -> list[Noised]:
    """Each component of a slot, with the noise that it needs."""
    columns = zip(*vector.values(), strict=True) if vector else [()] * len(slot.components)
    laplace = DiscreteLaplace(Fraction(slot.norms.l1) / slot.epsilon)
    return [(laplace if slot.sigma is None else RoundedNormal(slot.sigma), list(column)) for column in columns]


def check_price(plan: PrivatePlan) -> None:
    """The normal noise of a statement, as one Gaussian mechanism, is as private as it is charged for: its delta by the
    analytic formula, in floats (Balle, Wang 2018)."""
    charged = {name for joint in plan.joints for name in joint.releases}
    if any(release.normal and release.release.name not in charged for release in plan.releases):
        raise Violation("(ii) normal noise is not paid for")
    for joints in [[joint] for joint in plan.joints] + [list(plan.joints)][: len(plan.joints) > 1]:
        names = {name for joint in joints for name in joint.releases}
        normal = [slot for release in plan.releases if release.release.name in names for slot in release.normal]
        mu = sum(slot.norms.l2_squared / float(slot.sigma or 0) ** 2 for slot in normal) ** 0.5
        epsilon, delta = float(sum(slot.epsilon for slot in normal)), float(sum(joint.delta for joint in joints))
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        if erfc(a / 2**0.5) / 2 - exp(epsilon) * erfc(b / 2**0.5) / 2 > delta * (1 + 1e-6):
            raise Violation(f"(ii) normal noise of mu {mu} is not ({epsilon}, {delta})-DP")


# ---- pairs


def check_pair(statements: Sequence[Asked], a: Side, b: Side, removed: Removed) -> None:
    """Properties (i) to (iii) for one unit removed."""
    with Difference(a.snapshot, b.snapshot, removed) as unit:
        for one in statements:
            ready = a.outcome(one)
            if isinstance(ready, Ready):
                try:
                    check_rows(ready, a.engines.private, b.engines.private, unit)
                    for each in zip(ready.plans, a.exact(one), exact_by(a, b, one), ready.run(unit), strict=True):
                        check_moves(*each)
                except Violation as violation:
                    raise Violation(f"{removed}: {violation}\n{one}\n" + "\n".join(ready.texts)) from None


def check_rows(ready: Ready, larger: Any, smaller: Any, alone: Any) -> None:
    """Property (i) of the rows that a release counts, joined, grouped, windowed and filtered as they are, before any
    limit: what leaves is what the unit's rows alone give, and nothing else changes."""
    for plan in ready.plans:
        text = rows_sql(plan)
        if text is None:
            continue
        big, small, own = (counted(run(e, text, ready.read(plan))) for e in (larger, smaller, alone))
        if big != small + own:
            wrong = [*((big - own) - small).items(), *(small - (big - own)).items()]
            raise Violation(f"(i) rows of other units change, such as {wrong[:3]}, or not all of the unit's leave")


def rows_sql(plan: ReleasePlan) -> str | None:
    """The rows of a release, each with its unit's identity. None where rows are units: they have only places."""
    release = plan.release
    if any(s.table == "readings" for s in scans(release.input)):
        return None
    items = [i for i in steps.row_items(plan) if i.alias_or_name not in ("u", *steps.rank_names(plan))]
    rows_ = select_from(release.input, [*items, aliased(unit(release.input), "u")]).sql(dialect="duckdb")
    return f'SELECT i.id, r.* EXCLUDE (u) FROM ({rows_}) AS r JOIN priv."$units" AS i ON i."$unit" = r.u'


def counted(table: pa.Table) -> Counter[tuple[str, ...]]:
    """Rows as a multiset. Values are written out: NaN is not equal to itself, and zeros have signs."""
    columns = [map(repr, table.column(i).to_pylist()) for i in range(table.num_columns)]
    return Counter(zip(*columns, strict=True))


def exact_by(a: Side, b: Side, one: Asked) -> list[pa.Table]:
    """b's results of a's statement: b need not compile it again."""
    if one not in b.outcomes:
        b.outcomes[one] = a.outcomes[one]
    return b.exact(one)


def check_variant(statements: Sequence[Asked], side: Side, engine: Any, how: str) -> None:
    """Property (vi): the same results under other circumstances."""
    for one in statements:
        ready = side.outcome(one)
        if isinstance(ready, Ready):
            for plan, mine, other in zip(ready.plans, side.exact(one), ready.run(engine), strict=True):
                same = keys_of(mine, plan) == keys_of(other, plan) and vectors(mine, plan) == vectors(other, plan)
                if not same or mine.schema != other.schema:
                    raise Violation(f"(vi) {how} gives another result: {one}")
                text = rows_sql(plan)
                engines = (side.engines.private, engine) if text is not None else ()
                if len({frozenset(counted(run(e, text or "", ready.read(plan))).items()) for e in engines}) > 1:
                    raise Violation(f"(vi) {how} gives other rows: {one}\n{text}")


def shuffled(r: Random, database: Database) -> dict[str, list[Row]]:
    return {name: r.sample(list(rows), len(rows)) for name, rows in database.items()}


# ---- databases and statements that show what a fault spoils

PUBLIC = ["INSERT INTO zones VALUES ('z0', 'X')", "INSERT INTO regions VALUES ('R1', 'L', 'z0'), ('R2', NULL, NULL)"]
PUBLIC += [
    "INSERT INTO items VALUES (1, 'food', 0.19), (2, 'tool', 1)",
    "INSERT INTO prices VALUES (1, 10), (1, 20), (2, 5)",
]


def rows(**tables: Sequence[Sequence[str]]) -> dict[str, list[Row]]:
    """A database; each row gives the first columns, and the others are NULL."""
    made: dict[str, list[Row]] = {name: [] for name in worlds.TABLES}
    for name, given_rows in tables.items():
        width = len(worlds.TABLES[name].columns)
        made[name] = [(*row, *["NULL"] * (width - len(row))) for row in given_rows]
    return made


def people(*units: str) -> list[list[str]]:
    return [[unit, "'a'", "30", "'R1'", "'F'", "99.9"] for unit in units]


PLAIN = Terms()
CROWDED = rows(
    people=people("1", "2"),
    events=[["1", "'a'", "1", "1", "7", str(i % 10)] for i in range(9)] + [["2", "'b'", "2", "2", "-5", "3"]],
    # A basket of two units, with five lines: each of the two owns copies of all.
    baskets=[["1", "1", "'north'"], ["1", "2", "'south'"], ["2", "1", "'north'"]],
    lines=[["1", str(i % 3), "20"] for i in range(5)],
)
NOBODY = rows(people=people("NULL", "1"), events=[["NULL", "'a'", "1", "1"], ["1", "'a'", "1", "1"]])

# What the check is asked, by what a fault would spoil.
COUNT = "SELECT COUNT(*) FROM events"
JOIN = "SELECT COUNT(*) FROM lines l JOIN baskets b ON l.bid = b.bid"
SUM = "SELECT region, SUM(cost) FROM people GROUP BY region"
MEAN = "SELECT AVG(cost), SUM(cost) FROM people"
UNITS = "SELECT grade, COUNT(DISTINCT uid) FROM events GROUP BY grade"
PRICES = "SELECT COUNT(*) FROM events e JOIN prices p ON e.item = p.item"
SPREAD = "SELECT VAR_POP(cost), AVG(cost) FROM people"
LINE = "SELECT CORR(x, n), REGR_SLOPE(x, n), COUNT(*) FROM events"
SOUND = [COUNT, JOIN, SUM, MEAN, SPREAD, LINE, UNITS, "SELECT kind, SUM(x), COUNT(n) FROM events GROUP BY kind"]


def examine(
    folder: Path, database: Database, statements: Sequence[str | Asked], *units: str, terms: Terms = PLAIN
) -> None:
    """The check, for each of these units, and for another order of rows."""
    asks = [one if isinstance(one, Asked) else Asked(one) for one in statements]
    with Bench(World(folder, PUBLIC, terms)) as bench:
        whole = bench.side(database)
        for one in asks:
            whole.set(one)
            check_price(whole.session.compile(one.sql).plan)  # refusals are not what is examined
        check_variant(asks, whole, bench.side(shuffled(Random(1), database)).engines.private, "another order of rows")
        for unit in units:
            removed = Removed(unit)
            check_pair(asks, whole, bench.side(worlds.without(database, removed)), removed)
