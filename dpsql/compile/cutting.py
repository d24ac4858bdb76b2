"""What each unit may add to each key: its cells cut to r rows, or its vector scaled into a ball of B rows.

Integers throughout, rounded towards 0, so that the norms hold exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.bounds import most_rows
from dpsql.compile.grid import DOUBLE
from dpsql.compile.ir import GROUPING, Release
from dpsql.compile.literals import cast
from dpsql.compile.plan import ReleasePlan
from dpsql.compile.slots import SUBGRID, Slot, SlotKind, component_column, part_of_rows, vector_columns
from dpsql.compile.trees import aliased, case, column, named, select, wrapped


def limited(plan: ReleasePlan, source: str) -> exp.Select:
    """The cells in step `source` with what counts of them; slots of distinct values have no figure there."""
    kept = [column(source, n) for n in ("u", *plan.release.key_names)]
    figures: list[exp.Expr] = []
    rows = most_rows(plan.release.input)
    for i, slot in enumerate(plan.slots, 1):
        ball, most = plan.limits.ball, plan.limits.per_group
        if slot.kind is SlotKind.DISTINCT:
            continue
        if slot.kind is SlotKind.UNITS:
            figures.append(aliased(column(source, f"n{i}"), f"n{i}"))
        elif ball is not None:
            figures += _scaled(i, slot, ball, rows, source, per_set(plan.release))
        else:
            assert most is not None
            figures += _cut(i, slot, most, source)
    return select([*kept, *figures], named(source))


def _cut(i: int, slot: Slot, most: int, source: str) -> list[exp.Expr]:
    """A cell cut to `most` rows: a count and a sum are clamped, to what the statement asks for where that is less; a
    Bernstein vector is scaled as one, by most / n (each component clamped on its own would let 30 rows count where 10
    may). A sum whose part is bounded is NULL where it has no values, and stays so: clamped, it would be something."""
    n, s = column(source, f"n{i}"), column(source, f"s{i}")
    if slot.kind is SlotKind.ROWS and slot.part is None:
        return [aliased(_least(n, most), f"n{i}")]
    if slot.kind in (SlotKind.ROWS, SlotKind.SUM):
        figure, name = (n, f"n{i}") if slot.kind is SlotKind.ROWS else (s, f"s{i}")
        low, high = slot.part if slot.part is not None else part_of_rows(slot, most)
        below, above = exp.LT(this=figure, expression=_whole(low)), exp.GT(this=figure.copy(), expression=_whole(high))
        return [aliased(case([(below, _whole(low)), (above, _whole(high))], figure.copy()), name)]
    if slot.part is not None:
        return _mean(i, slot, source)
    over = exp.GT(this=n.copy(), expression=exp.Literal.number(most))
    return _scaled_to(over, [(column(source, c), c) for c in vector_columns(i, slot)], _whole(most), n)


def _mean(i: int, slot: Slot, source: str) -> list[exp.Expr]:
    """The weights of a cell's own mean, which counts as one row does: it is clamped on its grid, and they are M - k and
    k. A cell without values has none."""
    (axis,) = slot.axes
    assert axis.rows is not None and axis.grid is not None
    count, total = column(source, f"n{i}"), column(source, component_column(i, 1))
    parts = axis.rows.step / axis.grid.step  # a whole number
    low, high = (_whole(int(end - axis.rows.lo * parts)) for end in (axis.grid.lo, axis.grid.hi))
    product = exp.Mul(this=cast(total, "HUGEINT"), expression=_whole(int(parts)))
    guarded = exp.Nullif(this=count, expression=exp.Literal.number(0))
    mean = exp.Paren(this=exp.IntDiv(this=exp.Paren(this=product), expression=guarded))
    below, above = exp.LT(this=mean, expression=low), exp.GT(this=mean.copy(), expression=high)
    clamped = case([(below, low.copy()), (above, high.copy())], mean.copy())
    k = exp.Paren(this=exp.Sub(this=exp.Paren(this=clamped), expression=low.copy()))
    rest = exp.Sub(this=_whole(axis.span), expression=k.copy())
    some = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
    weights = zip(vector_columns(i, slot), (rest, k), strict=True)
    return [aliased(case([(some.copy(), weight)], _whole(0)), name) for name, weight in weights]


def _scaled(i: int, slot: Slot, ball: int, rows: int, source: str, per: Sequence[str]) -> list[exp.Expr]:
    """The unit's vector times min(1, B w / its norm), in parts of 2^-10, rounded towards 0: so the norm is at most
    B w. Norms are of L1, or for normal noise of L2; of a Bernstein vector within one cell both are at most N times the
    number of rows. rows: of a unit, at most."""
    n, s = column(source, f"n{i}"), column(source, f"s{i}")
    row = slot.weight // SUBGRID
    size: exp.Expr = n.copy()
    components = [(n, f"n{i}")]
    if slot.kind is SlotKind.SUM:
        components, size = [(s, f"s{i}")], exp.Abs(this=s.copy())
    elif slot.kind is SlotKind.MOMENTS:
        components, row = [(column(source, c), c) for c in vector_columns(i, slot)], 1
    of_unit = [column(source, n) for n in per]
    norm = _sum_of(size, of_unit) if slot.sigma is None else _root_of_squares(size, rows * row, of_unit)
    radius = _whole(ball * row)
    return _scaled_to(exp.GT(this=norm, expression=radius), components, radius, norm)


def _sum_of(size: exp.Expr, of_unit: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Window(this=exp.Sum(this=size), partition_by=list(of_unit), over="OVER")


def _root_of_squares(size: exp.Expr, most: int, of_unit: Sequence[exp.Expr]) -> exp.Expr:
    """An integer that is at least the root of the sum of squares of a unit's sizes, which add up to `most` or less.

    They are counted in parts so large that 2^50 of them do, rounded up: the squares, summed as integers, stay below
    2^101 with up to 2^24 of a unit's cells. That sum becomes a DOUBLE, its root is taken, and 2^-40 of it added: three
    roundings of 2^-53 each take less away."""
    part = 1 << max(0, most.bit_length() - 50)
    count: exp.Expr = cast(size, "HUGEINT")
    if part > 1:
        raised = exp.Paren(this=exp.Add(this=wrapped(count), expression=_whole(part - 1)))
        count = exp.Paren(this=exp.IntDiv(this=raised, expression=_whole(part)))
    squares = _sum_of(exp.Mul(this=count, expression=count.copy()), of_unit)
    root = exp.Sqrt(this=cast(squares, DOUBLE))
    widened = exp.Mul(this=root, expression=cast(exp.Literal.number(repr(1 + 2.0**-40)), DOUBLE))
    whole = cast(exp.Ceil(this=widened), "HUGEINT")
    return exp.Paren(this=exp.Mul(this=whole, expression=_whole(part))) if part > 1 else whole


def _scaled_to(
    over: exp.Expr, components: Sequence[tuple[exp.Expr, str]], numerator: exp.Expr, denominator: exp.Expr
) -> list[exp.Expr]:
    """Each component in parts of 2^-10, and times numerator / denominator where that is below 1."""
    return [
        aliased(case([(over.copy(), _part(c, numerator.copy(), denominator))], _times(c, SUBGRID)), name)
        for c, name in components
    ]


def _part(component: exp.Expr, numerator: exp.Expr, denominator: exp.Expr) -> exp.Expr:
    """SUBGRID * component * numerator // denominator; the denominator is above 0 wherever this is reached, and NULLIF
    keeps an engine that evaluates it elsewhere from failing."""
    product = exp.Mul(this=_times(component, SUBGRID), expression=numerator)
    guarded = exp.Nullif(this=denominator.copy(), expression=exp.Literal.number(0))
    return exp.IntDiv(this=exp.Paren(this=product), expression=guarded)


def _times(x: exp.Expr, factor: int) -> exp.Expr:
    return exp.Mul(this=wrapped(x.copy()), expression=_whole(factor))


def _whole(k: int) -> exp.Expr:
    """An integer as HUGEINT: products of counts, grid points and limits stay below 2^126 (see `plan`)."""
    number = exp.Literal.number(str(abs(k)))
    return cast(exp.Neg(this=number) if k < 0 else number, "HUGEINT")


def _least(x: exp.Expr, most: int) -> exp.Expr:
    over = exp.GT(this=x, expression=exp.Literal.number(most))
    return case([(over, exp.Literal.number(most))], x.copy())


def per_set(release: Release) -> list[str]:
    """What a limit on a unit's groups holds for."""
    return ["u", GROUPING] if release.sets else ["u"]
