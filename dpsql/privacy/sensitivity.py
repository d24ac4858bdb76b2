"""How far one privacy unit can move a release, from the limits that the chosen strategy enforces.

Neighbouring databases differ in all rows of one unit (add/remove). A slot is one integer vector per group key; its
norms are taken over all keys and components together, absent keys as 0. The norms come from the limits that the
rewritten SQL *enforces*, never from the policy's own numbers: a limit that is declared and not enforced bounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Norms:
    """Bounds on the change of a slot's vector when one unit is added or removed.

    linf: of any one component. l1: of the sum of absolute changes. keys: how many keys the unit can touch (k-hat).
    """

    linf: int
    l1: int
    keys: int


def of_rows(limit: int, weight: int, keys: int) -> Norms:
    """Strategy `rows`: at most `limit` rows of the unit are counted, each in one key, moving the vector by at most
    `weight` in L1. All rows may fall into one key, so linf is as large as l1.

    weight: of a count 1; of a sum over [lo, hi] max(|lo|, |hi|) on the grid; of a Bernstein slot of degree 1 its M.
    keys: D, the number of public keys (1 without GROUP BY).
    """
    return Norms(limit * weight, limit * weight, min(limit, keys))


def of_units(limit: int, keys: int) -> Norms:
    """COUNT(DISTINCT unit) under `rows`: the unit counts once in each key it touches, and it touches as many as it has
    rows left, but no more than there are."""
    touched = min(limit, keys)
    return Norms(1, touched, touched)
