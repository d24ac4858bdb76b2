"""ROLLUP, CUBE and GROUPING SETS: the sets of keys that a release groups by, and their public keys.

A row counts once in each set, so every norm adds up over the sets (`sensitivity.over_sets`). Which set a group belongs
to is part of its key, the column `g`: a key that is NULL and a key that is rolled up are two groups. The public keys of
a set are those that GROUP BY of its own keys would have, with NULL for the others; a set without keys has one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations, product

from sqlglot import exp

from dpsql.compile.blocks import SETS, PrivateBlock, leaves
from dpsql.compile.ir import GROUPING, PublicKeys, grouping_id
from dpsql.compile.keys import GroupKey, KeyLists
from dpsql.compile.literals import literal, null
from dpsql.compile.parse import span_of
from dpsql.compile.trees import aliased, column, derived, select, without_parens
from dpsql.errors import refusal
from dpsql.policy.facts import Kind, SqlType

MAX_SETS = 128
MAX_KEYS = 60
"""Each key is a bit of `g`."""

Names = tuple[str, ...]
_INTEGER = SqlType(Kind.INTEGER)


def grouping_sets(block: PrivateBlock, keys: Sequence[GroupKey]) -> tuple[Names, ...]:
    """The names of the keys of each set; () where all keys are one set. Raises DP221."""
    if not any(isinstance(e, SETS) for e in block.groups):
        return ()
    span = next((s for e in block.groups for leaf in leaves(e) if (s := span_of(leaf)) is not None), None)
    if any(isinstance(n, SETS) and not n.expressions for e in block.groups for n in e.walk()):
        raise refusal("DP221", "ROLLUP and CUBE take keys", span=span, repair="write ROLLUP (a, b), or CUBE (a, b)")
    order = [k.key.name for k in keys]
    sets = [tuple(n for n in order if n in chosen) for chosen in _product(block.groups, keys)]
    if len(sets) > MAX_SETS or len(keys) > MAX_KEYS:
        many = f"{MAX_SETS} grouping sets" if len(sets) > MAX_SETS else f"{MAX_KEYS} keys in grouping sets"
        reason = f"there are more than {many}"
        raise refusal("DP221", reason, span=span, repair="name the sets that are wanted: GROUPING SETS ((a, b), (a))")
    twice = next((s for i, s in enumerate(sets) if s in sets[:i]), None)
    if twice is not None:
        shown = ", ".join(k.key.text for k in keys if k.key.name in twice)
        repair = f"name each set once: GROUPING SETS (({shown}), ...)"
        raise refusal("DP221", f"the grouping set ({shown}) stands there twice", span=span, repair=repair)
    return tuple(sets) if len(sets) > 1 else ()


def _product(elements: Sequence[exp.Expr], keys: Sequence[GroupKey]) -> list[set[str]]:
    """One set of each element, put together: `GROUP BY a, ROLLUP (b, c)` is (a, b, c), (a, b), (a)."""
    found: list[set[str]] = [set()]
    for element in elements:
        of_element = list(_sets(element, keys))
        found = [one | more for one, more in product(found, of_element)][: MAX_SETS + 1]
    return found


def _sets(element: exp.Expr, keys: Sequence[GroupKey]) -> Iterator[set[str]]:
    """The sets of one element, by the names of their keys; no more than are needed to see that there are too many."""
    parts = [_names(part, keys) for part in element.expressions]
    match element:
        case exp.Rollup():
            for length in range(len(parts), -1, -1):
                yield set().union(*parts[:length])
        case exp.Cube():
            subsets = (s for length in range(len(parts), -1, -1) for s in combinations(parts, length))
            for _, subset in zip(range(MAX_SETS + 1), subsets, strict=False):
                yield set().union(*subset)
        case exp.GroupingSets():
            for part in element.expressions:
                yield from _sets(part, keys)
        case _:
            yield _names(element, keys)


def _names(element: exp.Expr, keys: Sequence[GroupKey]) -> set[str]:
    meanings = [without_parens(leaf) for leaf in leaves(element)]
    return {k.key.name for k in keys if k.tree in meanings}


def public_keys_of_sets(
    lists: KeyLists, keys: Sequence[GroupKey], sets: Sequence[Names]
) -> tuple[PublicKeys | None, Names]:
    """The public keys of a release, and the names of those that have no public values. Where there are several sets
    the columns are `g` and the keys, and the parts are those of each set."""
    names, private = tuple(k.key.name for k in keys), lists.private
    if not sets:
        return lists.of(names), private
    parts = [lists.of(s) for s in sets]
    selects: list[exp.Query] = [
        _tagged(part, grouping_id(names, s), s, keys, private) for part, s in zip(parts, sets, strict=True)
    ]
    rows = reduce(lambda before, more: exp.union(before, more, distinct=False, copy=False), selects)
    columns = [column("sets", n) for n in (GROUPING, *(n for n in names if n not in private))]
    inferred = any(p.inferred for p in parts if p is not None)
    return PublicKeys(select(columns, derived(rows, "sets")), inferred, parts=tuple(parts)), private


def _tagged(part: PublicKeys | None, identity: int, own: Names, keys: Sequence[GroupKey], private: Names) -> exp.Query:
    """The public keys of a set, with its number before them and NULL for keys that are not its own."""
    items = [aliased(literal(identity, _INTEGER), GROUPING)]
    for name, type_ in ((k.key.name, k.key.scalar.facts.type) for k in keys if k.key.name not in private):
        items.append(column("own", name) if name in own else aliased(null(type_), name))
    return select(items, derived(part.tree, "own")) if part is not None else exp.Select(expressions=items)


def grouping_value(node: exp.Expr, released: str, keys: Sequence[GroupKey], sets: Sequence[Names]) -> exp.Expr:
    """GROUPING(a, b), or GROUPING_ID(a, b), over a released table: one bit for each argument, 1 where it is rolled up.
    GROUPING_ID() is of all keys. Raises DP202."""
    arguments = node.expressions
    names = [k.key.name for k in keys]
    asked = names if not arguments else [_key_of(a, keys) for a in arguments]
    if not sets:
        return literal(0, _INTEGER)
    bits: list[exp.Expr] = []
    for i, name in enumerate(reversed(asked)):
        place = exp.Literal.number(1 << (len(names) - 1 - names.index(name)))
        shifted = exp.Paren(this=exp.IntDiv(this=column(released, GROUPING), expression=place))
        bit = exp.Paren(this=exp.Mod(this=shifted, expression=exp.Literal.number(2)))
        bits.append(exp.Mul(this=bit, expression=exp.Literal.number(1 << i)) if i else bit)
    return exp.Paren(this=reduce(lambda total, bit: exp.Add(this=total, expression=bit), bits))


def _key_of(argument: exp.Expr, keys: Sequence[GroupKey]) -> str:
    meaning = without_parens(argument)
    found = next((k for k in keys if k.tree == meaning), None)
    if found is None:
        repair = f"the keys are {', '.join(k.key.text for k in keys) or 'none: add GROUP BY'}"
        raise refusal("DP202", "GROUPING takes what the statement groups by", span=span_of(argument), repair=repair)
    return found.key.name
