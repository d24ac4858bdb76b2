"""How far one privacy unit can move a release, from the limits that the chosen strategy enforces.

Neighbouring databases differ in all rows of one unit (add/remove). A slot is one integer vector per group key; its
norms are taken over all keys and components together, absent keys as 0. The norms come from the limits that the
rewritten SQL *enforces*, never from the policy's own numbers: a limit that is declared and not enforced bounds nothing.
(With R = 400, g = 8, r = 100, formulas that mix strategies under-noise `rows` twofold in L2 and give `cells` half of
its true 800 in L1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True, slots=True)
class Limits:
    """What the SQL of a release enforces for each unit; None means "not enforced".

    strategy: its name. rows (R): at most so many driving rows count; `late`: chosen after WHERE and joins, else before.
    groups (g): at most so many keys. per_group (r): in each key, the unit's rows count as at most so many.
    ball (B): the unit's vector is scaled into an L1 ball of so many rows. Of grouping sets, g, r and B hold in each.
    """

    strategy: str
    rows: int | None = None
    late: bool = False
    groups: int | None = None
    per_group: int | None = None
    ball: int | None = None

    @property
    def per_unit(self) -> bool:
        """Whether the SQL first adds up the rows of each (unit, key)."""
        return self.per_group is not None or self.ball is not None


@dataclass(frozen=True, slots=True)
class Norms:
    """Bounds on the change of a slot's vector when one unit is added or removed.

    linf: of any one component. l1: of the sum of absolute changes. keys: how many keys the unit can touch (k-hat).
    l2_squared: of the sum of squared changes, so that it stays an integer.
    """

    linf: int
    l1: int
    keys: int
    l2_squared: int


def touched_keys(limits: Limits, keys: int | None) -> int:
    """k-hat: the number of keys that one unit can touch, at most one per row. keys: D, None where there is no list."""
    bounds = [n for n in (limits.rows, limits.groups, keys) if n is not None]
    if not bounds:
        raise ValueError("nothing bounds the keys of a unit")
    return min(bounds)


def of_rows(limits: Limits, weight: int, keys: int | None) -> Norms:
    """A slot to which each row adds at most `weight` in L1: a count 1; a sum over [lo, hi] max(|lo|, |hi|) on its grid;
    a Bernstein slot of degree 1 its M.

    The unit's rows count as at most R in all, at most r in one key and so at most k-hat * r over its keys, and within
    the ball as at most B. All of them may fall into one key, so linf is bounded by what one key can hold.
    Its vector within one key is no longer in L2 than in L1. So with n_k rows in the key k, the squares add up to at
    most sum (n_k weight)^2 <= max n_k * sum n_k * weight^2: what one key can hold times what all can.
    """
    touched = touched_keys(limits, keys)
    in_all = [n for n in (limits.rows, limits.ball) if n is not None]
    in_one = in_all + [n for n in (limits.per_group,) if n is not None]
    if limits.per_group is not None:
        in_all.append(touched * limits.per_group)
    if not in_all:
        raise ValueError("nothing bounds the rows of a unit")
    one, all_ = min(in_one), min(in_all)
    return Norms(one * weight, all_ * weight, touched, one * all_ * weight**2)


def of_round_ball(limits: Limits, weight: int, components: int, keys: int | None) -> Norms:
    """A slot whose vector is scaled into an L2 ball of B rows, for normal noise: more of a unit is left than in an L1
    ball of so many rows where it has several keys. With n components in all, its L1 norm is at most the root of n times
    as much (Cauchy, Schwarz)."""
    if limits.ball is None:
        raise ValueError("nothing bounds the vector of a unit")
    radius, touched = limits.ball * weight, touched_keys(limits, keys)
    return Norms(radius, radius * (isqrt(touched * components - 1) + 1), touched, radius**2)


def of_parts(limits: Limits, weight: int, part: tuple[int, int], keys: int | None) -> Norms:
    """A count or a sum of which what a unit adds to a key it has rows in, its part, is clamped between two grid points.
    A key without its rows gets 0 from it, so one part moves the vector by at most max(|lo|, |hi|), and all by k-hat
    times that. Where 0 lies between them, clamping brings a part nearer to 0, and what holds without it still does;
    where it does not, a part may be more than its rows bring.
    """
    touched, most = touched_keys(limits, keys), max(abs(part[0]), abs(part[1]), 1)
    one, all_ = most, touched * most
    if part[0] <= 0 <= part[1]:
        rows = of_rows(limits, weight, keys)
        one, all_ = min(one, rows.linf), min(all_, rows.l1)
    return Norms(one, all_, touched, one * all_)


def of_values(limits: Limits, keys: int | None) -> Norms:
    """COUNT(DISTINCT x): a value comes or goes with the unit only where one of the unit's own rows holds it, so no more
    values do than of_rows counts rows: at most R in all; under `cells` r in one key, chosen among the unit's own, and
    k-hat * r in all. Scaling a vector bounds no number of values, so with a ball there is nothing to promise.
    """
    if limits.ball is not None:
        raise ValueError("a ball bounds no values")
    return of_rows(limits, 1, keys)


def over_sets(norms: Sequence[Norms]) -> Norms:
    """A release over several grouping sets, from the norms of each. Their groups are different components of one
    vector, and a row counts once in each set, so what a unit moves adds up, and in L2 its squares do; one component is
    of one set. (R = 3 and CUBE of two columns: four sets, 12 in L1 and 6 in L2.)
    """
    return Norms(
        max(n.linf for n in norms),
        sum(n.l1 for n in norms),
        sum(n.keys for n in norms),
        sum(n.l2_squared for n in norms),
    )


def of_utilities(norms: Norms, factors: tuple[Fraction, Fraction]) -> Fraction:
    """The utilities of candidates: each is the one component of its key, times a public factor between these two. So a
    unit moves no utility by more than linf times the largest factor. (Where all factors are 0 nothing moves, and any
    bound above 0 will do.)
    """
    return norms.linf * (max(abs(factor) for factor in factors) or Fraction(1))


def of_units(limits: Limits, keys: int | None) -> Norms:
    """COUNT(DISTINCT unit): the unit counts once in each key that it touches."""
    touched = touched_keys(limits, keys)
    return Norms(1, touched, touched, touched)
