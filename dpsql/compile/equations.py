"""Columns that are equal in every row of a block: a private column takes the values of the public column it equals.

`l.store_id = s.store_id` makes the store a public key where s is public, and what is said of `s` restricts it. Equal
means one value of one type: a comparison that converts a side tells less apart, and of two equal DOUBLEs one may be
-0.0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from dpsql.compile.ir import ColumnName, Scope
from dpsql.compile.trees import column, copied, rebuild, unwrapped
from dpsql.policy.facts import Kind


class Equations:
    """Classes of equal columns, from what holds for every row. Each private column is written as one column of its
    class, a public one where there is one; public columns stay, since an equation of two of them joins their tables."""

    def __init__(self, predicates: Sequence[exp.Expr], scope: Scope, public: Sequence[str], optional: Collection[str]):
        self._public, self._scope = frozenset(public), scope
        self._classes: dict[ColumnName, list[ColumnName]] = {}
        for predicate in predicates:
            self._read(predicate)
        self._written: Mapping[ColumnName, ColumnName] = {
            name: min(members, key=lambda m: (m[0] not in public, m[0] in optional, members.index(m)))
            for name, members in self._classes.items()
        }

    def members(self, name: ColumnName) -> Sequence[ColumnName]:
        """Every column that equals this one, itself included."""
        return self._classes.get(name, [name])

    def of(self, tree: exp.Expr) -> exp.Expr:
        """The tree with private columns as their class is written. `x = x` says that x is not NULL."""
        if isinstance(tree, exp.Column):
            name = tree.table, tree.name
            return copied(tree) if name[0] in self._public else column(*self._written.get(name, name))
        node = rebuild(tree, self.of)
        if not isinstance(node, exp.EQ) or node == tree or node.this != node.expression:
            return node
        same = unwrapped(node.this)
        if isinstance(same, exp.Column) and not self._scope[same.table, same.name].nullable:
            return exp.true()
        return exp.Not(this=exp.Paren(this=exp.Is(this=node.this, expression=exp.Null())))

    def _read(self, predicate: exp.Expr) -> None:
        if not isinstance(predicate, exp.EQ):
            return
        sides = [unwrapped(side) for side in (predicate.this, predicate.expression)]
        names = [(side.table, side.name) for side in sides if isinstance(side, exp.Column)]
        facts = [self._scope[name] for name in names if name in self._scope]
        if len(facts) < 2 or facts[0].type != facts[1].type or facts[0].type.kind is Kind.DOUBLE:
            return
        one, other = (self._classes.setdefault(name, [name]) for name in names)
        if one is not other:
            one += other
            self._classes.update(dict.fromkeys(other, one))
