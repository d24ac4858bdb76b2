"""Entity labels: which columns identify whose row it is.

A column carries the label of table T when it is T's key, or the foreign key by which its own table is declared to
reach its unit; the unit itself is a label too. Any other column that happens to hold keys of T (a friend, a manager)
has none: `friend_id = user_id` joins rows of two people.

Labels decide only whether a statement is *meant* per unit; where it is not, it is refused with the conjunct to add.
Who owns a row never rests on them: the rewriter itself adds the equality of units to every private join and subquery,
and the unit to every key and partition.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dpsql.compile.blocks import (
    BlockSource,
    PrivateBlock,
    PrivateUnion,
    Rows,
    Source,
    TableSource,
    is_missing_inside,
    item_name,
    item_tree,
)
from dpsql.compile.trees import unwrapped
from dpsql.policy.model import Path, Policy, Table

Label = tuple[str, int]
"""(table or "" for the unit itself, position in its key)."""

_UNIT: Label = ("", 0)


def labels_of_column(table: Table, name: str, policy: Policy) -> frozenset[Label]:
    """The entities that a column of a private table identifies, within the declared paths."""
    found: set[Label] = set()
    if table.public:
        return frozenset()
    if name == table.unit:
        found.add(_UNIT)
    if name in table.key:
        found.add((table.name, table.key.index(name)))
    if isinstance(table.unit, Path) and name in table.unit.via:
        position = table.unit.via.index(name)
        parent = policy.tables[table.unit.to]
        found.add((parent.name, position))
        if parent.key[position] == parent.unit:
            found.add(_UNIT)
    return frozenset(found)


def labels_of(source: Source, name: str, policy: Policy) -> frozenset[Label]:
    """The same for a column of any FROM item, by lineage: `uid + 0 AS uid` or `7 AS uid` has no label."""
    if isinstance(source, TableSource):
        return labels_of_column(source.table, name, policy)
    return _labels_of_item(source.block, name, policy) if isinstance(source, BlockSource) else frozenset()


def _labels_of_item(block: Rows, name: str, policy: Policy) -> frozenset[Label]:
    if isinstance(block, PrivateUnion):
        return frozenset.intersection(*(_labels_of_item(b, name, policy) for b in block.branches))
    return labels_in(item_tree(block, name), block.sources, policy)


def labels_of_output(block: Rows, tree: exp.Expr, policy: Policy) -> frozenset[Label]:
    """The labels of an expression over the FROM items of a query, or of one of its columns under another alias."""
    own = {s.alias for s in block.sources} if isinstance(block, PrivateBlock) else set()
    if isinstance(block, PrivateBlock) and not (isinstance(tree, exp.Column) and tree.table not in own):
        return labels_in(tree, block.sources, policy)
    return _labels_of_item(block, tree.name, policy)


def labels_in(tree: exp.Expr, sources: Iterable[Source], policy: Policy) -> frozenset[Label]:
    """The labels of an expression over these FROM items: those of the column that it is."""
    tree = unwrapped(tree)
    if not isinstance(tree, exp.Column):
        return frozenset()
    source = next((s for s in sources if s.alias == tree.table), None)
    return labels_of(source, tree.name, policy) if source is not None else frozenset()


def is_unit(source: Source, name: str, policy: Policy) -> bool:
    """Whether this column is, unchanged, the unit of its row."""
    return _UNIT in labels_of(source, name, policy)


def identify(labels: Iterable[frozenset[Label]], policy: Policy) -> bool:
    """Whether columns with these labels identify a unit, or an entity that belongs to one, whole."""
    found = frozenset().union(*labels)
    names = {table for table, _ in found if table}
    return _UNIT in found or any(
        all((name, position) in found for position in range(len(policy.tables[name].key))) for name in names
    )


def unit_called(sources: Iterable[Source], policy: Policy) -> str | None:
    """What a statement over these FROM items may call the unit by; None where none of them shows it."""
    for source in sources:
        units = unit_columns(source, policy)
        if units:
            return min(called for called, name in source.columns if name in units)
    return None


def unit_columns(source: Source, policy: Policy) -> frozenset[str]:
    """The columns of a FROM item that are, unchanged, the unit of its rows, and of every one of them: where an outer
    join inside it found no partner, such a column is NULL, and tells two rows of one unit apart."""
    if isinstance(source, TableSource):
        names: list[str] = [actual for _, actual in source.columns]
    elif isinstance(source, BlockSource):
        names = [item_name(i) for i in range(len(source.columns))]
    else:
        return frozenset()
    return frozenset(n for n in names if is_unit(source, n, policy) and not is_missing_inside(source, n))
