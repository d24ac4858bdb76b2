"""What sqlglot's parser forgives and DuckDB's grammar does not have.

Such a tree would be written back as the same text, so that the round trip finds nothing: DuckDB's parser would refuse
it after all else was done, or, where a private block is bound by names of our own, nobody would.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.compile.trees import folded, unwrapped
from dpsql.errors import Error, refusal

JOIN_WORDS = ("method", "side", "kind", "on", "using")
"""Where a join keeps what tells it from a comma."""


def misread(node: exp.Expr) -> Error | None:
    """The refusal of a node that is no SQL of DuckDB's; its span is the caller's to give."""
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else None


def _from(node: exp.Expr) -> Error | None:
    if isinstance(node.this, exp.Select | exp.SetOperation):
        return refusal("DP101", "a query in FROM is not in parentheses", repair="write (SELECT ...)")
    return None


def _join(join: exp.Expr) -> Error | None:
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    words = " ".join(filter(None, (method, side, kind)))
    conditioned = any(join.args.get(key) for key in ("on", "using"))
    if conditioned and (method in ("NATURAL", "POSITIONAL") or kind == "CROSS"):
        repair = "use JOIN ... ON, or leave the condition out"
        return refusal("DP101", f"{words} JOIN takes no condition", repair=repair)
    if not conditioned and kind in ("SEMI", "ANTI") and method != "NATURAL":
        return refusal("DP101", f"{words} JOIN needs ON or USING", repair="write ON a.x = b.x, or USING (x)")
    if (method == "NATURAL" and kind == "CROSS") or (kind == "OUTER" and not side):
        return refusal("DP101", f"{words} JOIN is no join", repair="use JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN")
    names = [u.this if isinstance(u, exp.Column) and len(u.parts) == 1 else u for u in join.args.get("using") or ()]
    if not all(isinstance(name, exp.Identifier) for name in names):
        return refusal("DP101", "USING takes names of columns alone", repair="write USING (x), or ON a.x = b.y")
    return _from(join)


def _order(node: exp.Expr) -> Error | None:
    whole = any(isinstance(o.this, exp.Var) and o.this.name.upper() == "ALL" for o in node.expressions)
    return _alone("ORDER BY ALL") if whole and len(node.expressions) > 1 else None


def _group(node: exp.Expr) -> Error | None:
    return _alone("GROUP BY ALL") if node.args.get("all") and node.expressions else None


def _alone(what: str) -> Error:
    return refusal("DP101", f"{what} stands alone", repair="name the columns, or leave the others out")


def _select(node: exp.Expr) -> Error | None:
    """`SELECT 1 JOIN t`: a join with nothing."""
    if (node.args.get("joins") or node.args.get("laterals")) and not node.args.get("from_"):
        return refusal("DP101", "there is a JOIN and no FROM before it", repair="write FROM t JOIN ...")
    return _query(node)


def _query(node: exp.Expr) -> Error | None:
    """`SUM(SELECT 1)`: a query as an argument has parentheses of its own, but for EXISTS(SELECT 1)."""
    if isinstance(node.parent, exp.Func) and not isinstance(node.parent, exp.Exists | exp.Array):
        return refusal("DP101", "a query in an expression is not in parentheses", repair="write ((SELECT ...))")
    return None


def _array(node: exp.Expr) -> Error | None:
    """`ARRAY(SELECT ...)` calls nothing that has a name."""
    if any(isinstance(each, exp.Query) for each in node.expressions):
        return refusal("DP240", "ARRAY of a query is not answered", repair="ask the query itself")
    return None


def _with(node: exp.Expr) -> Error | None:
    """`WITH a AS (t)` names a table, and no query. (What else may not stand there is refused as a statement.)"""
    if not all(isinstance(cte.this, exp.Query | exp.Values | exp.DML | exp.DDL) for cte in node.expressions):
        return refusal("DP101", "WITH names queries", repair="write WITH a AS (SELECT * FROM t)")
    names = [folded(cte.alias) for cte in node.expressions]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is None:
        return None
    return refusal("DP112", f'two queries of one WITH are called "{twice}"', repair="give one of them another name")


def _subquery(node: exp.Expr) -> Error | None:
    """Parentheses hold a query or a join: (SELECT ...), ((SELECT ...)), (a JOIN b ...), but not (a), (a AS b) or
    (a, b)."""
    inner = node.this
    if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and inner.args.get("alias")):
        joins = inner.args.get("joins") or ()
        if not joins or any(not any(join.args.get(key) for key in JOIN_WORDS) for join in joins):
            return refusal("DP101", "these parentheses hold no query and no join", repair="leave them out")
    return None


def _set_operation(node: exp.Expr) -> Error | None:
    if not all(isinstance(side, exp.Query | exp.Values) for side in (node.this, node.expression)):
        reason, repair = "UNION, EXCEPT and INTERSECT stand between queries", "write SELECT * FROM t"
        return refusal("DP101", reason, repair=repair)
    if any(isinstance(side, exp.Subquery) and side.args.get("alias") for side in (node.this, node.expression)):
        return refusal("DP101", "a query beside UNION, EXCEPT or INTERSECT has no alias", repair="leave it out")
    return _query(node)


def _chain(node: exp.Expr) -> Error | None:
    """`a < b < c`: comparisons do not associate."""
    alike = next(kinds for kinds in _CHAINS if isinstance(node, kinds))
    if any(isinstance(side, alike) for side in (node.this, node.args.get("expression"))):
        return refusal("DP101", "comparisons are not chained", repair="write a < b AND b < c, or use parentheses")
    return None


def _is(node: exp.Expr) -> Error | None:
    """`x IS 3`: a test for what has no equal, and no comparison."""
    if isinstance(node.expression, exp.Null | exp.Boolean):
        return None
    repair = "write x = y, or x IS NOT DISTINCT FROM y"
    return refusal("DP101", "IS is followed by NULL, TRUE, FALSE or DISTINCT FROM", repair=repair)


def _frame(node: exp.Expr) -> Error | None:
    """A frame's bounds but CURRENT ROW say PRECEDING or FOLLOWING."""
    for key in ("start", "end"):
        bound = node.args.get(key)
        if bound and bound != "CURRENT ROW" and not node.args.get(f"{key}_side"):
            return refusal("DP101", "a bound of a window's frame lacks PRECEDING or FOLLOWING")
    return None


def _in(node: exp.Expr) -> Error | None:
    """`x IN ()`, which sqlglot also reads where nothing follows the IN."""
    if any(node.args.get(key) for key in ("expressions", "query", "field", "unnest")):
        return None
    return refusal("DP240", "IN without values is not answered", repair="list the values: IN (...)")


def _distinct(node: exp.Expr) -> Error | None:
    """COUNT(DISTINCT): an aggregate of nothing."""
    if node.expressions or not isinstance(node.parent, exp.Func):
        return None
    return refusal("DP101", "DISTINCT is followed by nothing", repair="write COUNT(DISTINCT column)")


def _tuple(node: exp.Expr) -> Error | None:
    """`() = 1`: parentheses with nothing in them stand for no value. (As one of GROUPING SETS they do for no keys.)"""
    if node.expressions or not isinstance(node.parent, exp.Condition | exp.Join | exp.Where | exp.Having | exp.Select):
        return None
    return refusal("DP101", "there is nothing in these parentheses", repair="write what they are to hold")


def _exists(node: exp.Expr) -> Error | None:
    """`EXISTS(x)`, a lambda or no query at all: EXISTS is no function."""
    if isinstance(unwrapped(node.this), exp.Query | exp.Values):
        return None
    return refusal("DP101", "EXISTS is followed by a query", repair="write EXISTS (SELECT ...)")


def _quantifier(node: exp.Expr) -> Error | None:
    """`ANY(x)` by itself: what it holds is compared with something. `x = ANY([1, 2])` is written anew by DuckDB's own
    parser, with a function that nobody named."""
    word = type(node).__name__.upper()
    if not isinstance(node.parent, exp.Binary):
        return refusal("DP101", f"{word} follows a comparison", repair=f"write x = {word} (SELECT ...)")
    if isinstance(node.parent, exp.Like | exp.ILike) or isinstance(unwrapped(node.this), exp.Query | exp.Values):
        return None
    return refusal("DP240", f"{word} of a list is not answered", repair="write x IN (1, 2), or list_contains(list, x)")


def _parentheses(node: exp.Expr) -> Error | None:
    """`(x AS y)`: only an item of SELECT or FROM gets a name."""
    if not isinstance(node.this, exp.Alias):
        return None
    return refusal("DP101", "an expression in parentheses has no alias", repair="write (x) AS y")


_CHAINS: tuple[tuple[type[exp.Expr], ...], ...] = (
    (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    (exp.Like, exp.ILike, exp.RegexpFullMatch, exp.RegexpLike, exp.Glob, exp.SimilarTo),
    (exp.Between,),
)

_RULES: dict[type[exp.Expr], Callable[[exp.Expr], Error | None]] = {
    exp.Select: _select,
    exp.Tuple: _tuple,
    exp.Array: _array,
    exp.From: _from,
    exp.Join: _join,
    exp.Order: _order,
    exp.Group: _group,
    exp.With: _with,
    exp.Subquery: _subquery,
    exp.In: _in,
    exp.Is: _is,
    exp.Distinct: _distinct,
    exp.Exists: _exists,
    exp.Any: _quantifier,
    exp.All: _quantifier,
    exp.Paren: _parentheses,
    exp.WindowSpec: _frame,
    exp.Union: _set_operation,
    exp.Except: _set_operation,
    exp.Intersect: _set_operation,
    **{kind: _chain for kinds in _CHAINS for kind in kinds},
}
