"""What several passes do with sqlglot trees. Nothing here changes its argument: what is new is a new tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

_Node = TypeVar("_Node", bound=exp.Expr)

DIALECT = DuckDB()
"""One for all: where sqlglot is given the name of a dialect, it makes a new one each time."""


def levels(tree: exp.Expr) -> Iterator[list[exp.Expr]]:
    """The nodes of a tree, level by level from its root: in the order of sqlglot's `walk`, in half its time."""
    node_class = exp.Expr
    level = [tree]
    while level:
        yield level
        below: list[exp.Expr] = []
        for node in level:
            for value in node.args.values():
                if isinstance(value, node_class):
                    below.append(value)
                elif value.__class__ is list:
                    below += [each for each in value if isinstance(each, node_class)]
        level = below


def nodes(tree: exp.Expr) -> list[exp.Expr]:
    """Every node of a tree, its root first, level by level."""
    node_class = exp.Expr
    found = [tree]
    for node in found:  # which grows meanwhile
        for value in node.args.values():
            if isinstance(value, node_class):
                found.append(value)
            elif value.__class__ is list:
                found += [each for each in value if isinstance(each, node_class)]
    return found


def copied(tree: _Node) -> _Node:
    """A copy, without comments, in a third of the time that sqlglot's own takes; places in the text are kept."""
    return node_copies(tree)[0][1]  # type: ignore[return-value]


def node_copies(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Every node of a tree with its copy, the root first."""
    node_class = exp.Expr
    made: list[tuple[exp.Expr, exp.Expr]] = [(tree, tree.__class__())]
    for node, copy in made:  # which grows meanwhile
        if node._meta is not None:
            copy._meta = dict(node._meta)
        if node._type is not None:
            copy._type = copied(node._type)
        args = copy.args
        for key, value in node.args.items():
            if isinstance(value, node_class):
                child = value.__class__()
                child.parent, child.arg_key = copy, key
                args[key] = child
                made.append((value, child))
            elif value.__class__ is list:
                args[key] = children = []
                for index, each in enumerate(value):
                    if isinstance(each, node_class):
                        child = each.__class__()
                        child.parent, child.arg_key, child.index = copy, key, index
                        children.append(child)
                        made.append((each, child))
                    else:
                        children.append(each)
            else:
                args[key] = value
    return made


def dissolve(found: Iterable[exp.Expr]) -> None:
    """Take the parents from the nodes of a tree that nobody holds any more. A node and its parent hold each other, so
    that only Python's collector would find them, and ten trees for each statement keep it busy."""
    for node in found:
        node.parent = None


def rebuild(node: exp.Expr, child: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The same node over `child` of each of its children, with its place in the text kept."""
    copy = type(node)()
    if node._meta is not None:
        copy._meta = dict(node._meta)
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, child(value))
        elif isinstance(value, list):
            copy.set(key, [child(v) if isinstance(v, exp.Expr) else v for v in value])
        else:
            copy.set(key, value)
    return copy


def without_parens(node: exp.Expr) -> exp.Expr:
    """A copy without parentheses: for comparing what is meant, never for generating."""
    return rebuild(unwrapped(node), without_parens)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """The node itself, without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a conjunction; nothing for None."""
    if node is not None:
        top = unwrapped(node)
        yield from operands(top) if isinstance(top, exp.And) else [top]


def operands(node: exp.Expr) -> list[exp.Expr]:
    """Of a chain of one connector, however long."""
    found: list[exp.Expr] = []
    todo = [node]
    while todo:
        top = unwrapped(todo.pop())
        if type(top) is type(node):
            todo += [top.expression, top.this]
        else:
            found.append(top)
    return found


def implied(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a conjunction, and what the branches of an OR among them have in common: `(a AND b) OR (a AND c)`
    is true only where `a` is."""
    for part in conjuncts(node):
        yield part
        if isinstance(part, exp.Or):
            yield from _in_every_branch(part)


def _in_every_branch(node: exp.Or) -> Iterator[exp.Expr]:
    branches = operands(node)
    shared = {said: part for part in implied(branches[0]) if (said := meaning(part)) is not None}
    for branch in branches[1:]:
        if not shared:
            return
        others = {meaning(part) for part in implied(branch)}
        shared = {said: part for said, part in shared.items() if said in others}
    yield from shared.values()


MAX_MEANING = 300
"""Words of an expression that is compared with others, a column being six. Longer ones are equal to nothing, so that
to ask every node of a statement stays cheap."""


def meaning(node: exp.Expr) -> str | None:
    """A text that two bound expressions share only where they say the same: without parentheses, and without the order
    of the sides of an equation. None where it would be long."""
    words = list(islice(_words(node), MAX_MEANING + 1))
    return " ".join(words) if len(words) <= MAX_MEANING else None


def _words(node: object) -> Iterator[str]:
    """A prefix form, in which no two trees are alike."""
    if isinstance(node, exp.Identifier):
        yield repr(node.name)
    elif isinstance(node, exp.Paren):
        yield from _words(node.this)
    elif isinstance(node, exp.EQ) and all(isinstance(unwrapped(s), exp.Column) for s in (node.this, node.expression)):
        yield "(=" + " ".join(sorted(" ".join(_words(s)) for s in (node.this, node.expression))) + ")"
    elif isinstance(node, exp.Expr):
        yield f"({type(node).__name__}"
        for key, value in sorted(node.args.items()):
            if value is not None and value is not False and value != []:
                yield key
                yield from _words(value)
        yield ")"
    elif isinstance(node, list):
        yield f"[{len(node)}"
        for one in node:
            yield from _words(one)
    else:
        yield repr(node)


def column(alias: str, name: str) -> exp.Column:
    """`"alias"."name"`, both quoted."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def wrapped(node: exp.Expr) -> exp.Expr:
    """In parentheses, unless it binds tighter than any operator: sqlglot's generator adds none by itself."""
    simple = isinstance(node, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Boolean | exp.Null | exp.Subquery)
    infix = isinstance(node, exp.Binary | exp.Connector)
    return node if simple and not infix else exp.Paren(this=node)


def conjunction(parts: Iterable[exp.Expr]) -> exp.Expr:
    """A copy of the parts, joined by AND. (sqlglot's own function raises where one is no condition, as in `ON *`: what
    is wrong with such a one, a list of what is allowed says later.)"""
    return exp.and_(*(part if isinstance(part, exp.Condition) else wrapped(part.copy()) for part in parts))


SUBQUERY = "(SELECT ...)"
"""What the column that stands for a subquery is called."""

CALLED = "called"
"""In a bound column's meta: the names, of the table if it was written and of the column, by which the analyst called it
(columns of subqueries have other names in generated SQL)."""

WRITTEN = "written"
"""In a call's meta: its name as the analyst wrote it (sqlglot has one class for STRING_AGG and GROUP_CONCAT)."""


def called(node: exp.Column, *, bare: bool = False) -> str:
    """A bound column as the analyst wrote it; with the name of its table where there was one, but for `bare`."""
    names = node.meta.get(CALLED) or (node.name,)
    return spelled(*names[-1:] if bare else names)


def spelled(*names: str) -> str:
    """Names as SQL writes them, with dots between them, quoted where they have to be."""
    if names == (SUBQUERY,):
        return SUBQUERY
    return ".".join(n if n.isidentifier() and n == n.lower() else f'"{n.replace(chr(34), chr(34) * 2)}"' for n in names)


def shown(node: exp.Expr, *, bare: bool = False) -> str:
    """An expression as an analyst would write it: without the aliases and quotes that resolving added. bare: without
    the names of tables too."""

    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return called(node, bare=bare)

    def plain(part: exp.Expr) -> exp.Expr:
        named = isinstance(part, exp.Column) and isinstance(part.this, exp.Identifier)
        return exp.var(called(part, bare=bare)) if named and isinstance(part, exp.Column) else part

    return copied(node).transform(plain, copy=False).sql(dialect=DIALECT, comments=False, copy=False)


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def default_name(node: exp.Expr) -> str:
    """The name of a column without an alias: as DuckDB calls it for the common cases, else its text."""
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star | None):
        return "count_star()"
    return node.sql(dialect=DIALECT, comments=False, normalize_functions="lower")


def select(items: Iterable[exp.Expr], source: exp.Expr) -> exp.Select:
    """`SELECT items FROM source`, made of these very nodes. (sqlglot's builders copy a tree at each step, and read the
    kind of a join by parsing one.)"""
    return exp.Select(expressions=list(items), from_=exp.From(this=source))


def add_join(tree: exp.Select, kind: str, item: exp.Expr, on: exp.Expr | None = None) -> exp.Select:
    """The SELECT itself, with `kind JOIN item ON on` as its last join."""
    words = {"side": kind} if kind in ("LEFT", "RIGHT", "FULL") else {"kind": kind}
    tree.append("joins", exp.Join(this=item, on=on, **words))
    return tree


def aliased(tree: exp.Expr, name: str) -> exp.Expr:
    """`tree AS "name"`, made of this very node."""
    if isinstance(tree, exp.Subquery):  # a value here, which `alias_` takes for a FROM item
        return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))
    return exp.alias_(tree, name, quoted=True, copy=False)


def from_items(node: exp.Select) -> list[exp.Expr]:
    from_ = node.args.get("from_")
    return [from_.this, *(j.this for j in node.args.get("joins") or ())] if from_ else []


def is_plain_subquery(node: exp.Expr) -> bool:
    """Parentheses around a query, without clauses of their own such as (SELECT ...) LIMIT 5."""
    plain = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)
    return plain and not any(v for k, v in node.args.items() if k not in ("this", "alias"))


def derived(query: exp.Expr, alias: str) -> exp.Subquery:
    """`(query) AS "alias"`, as the parser would build it."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


_ASCII = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def folded(name: str) -> str:
    """A name as DuckDB compares it: the case of A to Z is ignored, of no other letter."""
    return name.translate(_ASCII)


def named(step: str) -> exp.Table:
    """A step of a statement, in FROM."""
    return exp.Table(this=exp.to_identifier(step, quoted=True))


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> exp.Case:
    """CASE WHEN test THEN value ... ELSE default END."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in branches], default=default)
