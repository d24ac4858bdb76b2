"""Lower one expression of a row into total form.

`lower_scalar` walks a bound sqlglot tree and builds a new one that no row can make the engine raise on, together
with what is known of its values. It is closed: a node without a rule here, an argument that no rule reads, a type
that has no rule is refused (DP230 to DP233), so what a later sqlglot adds is refused until someone looks at it.
It must not read data, and must not rest a proof on anything but the held intervals of `ranges`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlglot import exp

from dpsql.compile import arithmetic, comparisons, dates, patterns, shifts
from dpsql.compile.casts import cast_to, type_of
from dpsql.compile.functions import apply, unknown
from dpsql.compile.guards import repeatable
from dpsql.compile.ir import Lower, Scalar, Scope
from dpsql.compile.kinds import BOOLEAN, NULL, VARCHAR, constant_of, unify
from dpsql.compile.literals import number_of
from dpsql.compile.narrowing import assume, compares, sharpened
from dpsql.compile.parse import span_of
from dpsql.compile.ranges import joined
from dpsql.compile.trees import CALLED, column, copied, unwrapped
from dpsql.errors import Span, refusal
from dpsql.policy.facts import Kind


def lower_scalar(tree: exp.Expr, scope: Scope) -> Scalar:
    """The total form of a bound expression, or a refusal.

    A cast that fails, a division by 0 and a date calculation that leaves the years 1 to 9999 give NULL."""
    rule = _RULES.get(type(tree))
    scalar = rule(tree, scope) if rule is not None else apply(tree, scope, lower_scalar)
    return sharpened(scalar, scope)


def lower_condition(tree: exp.Expr, scope: Scope, what: str) -> Scalar:
    """The total form of a condition, as BOOLEAN. what: the clause it stands in. Raises DP232 for text and dates."""
    return comparisons.condition(lower_scalar(tree, scope), what)


def narrow(scope: Scope, *predicates: exp.Expr) -> Scope:
    """The scope for rows for which all `predicates` are TRUE. What the engine may see before the filter stays as it
    was. What compares two terms is read again: by then more may be known of one of them."""
    again = [p for p in predicates if compares(p)] if len(predicates) > 1 else []
    for predicate in (*predicates, *reversed(again)):
        scope = assume(scope, predicate, True, False, lower_scalar)
    return scope


def _column(node: exp.Expr, scope: Scope) -> Scalar:
    assert isinstance(node, exp.Column)
    facts = scope.get((node.table, node.name))
    if facts is None or node.args.get("db"):
        reason, repair = f'no column "{node.name}" here', "name a column of this SELECT's own tables"
        raise refusal("DP111", reason, span=span_of(node), repair=repair)
    found = column(node.table, node.name)
    if CALLED in node.meta:
        found.meta[CALLED] = node.meta[CALLED]
    return Scalar(found, facts, span_of(node))


def _literal(node: exp.Expr, _: Scope) -> Scalar:
    if node.args.get("is_string"):
        return constant_of(str(node.this), VARCHAR, span_of(node))
    text = str(node.this)
    value = number_of(text)
    if value is None or value == math.inf:
        raise refusal("DP231", "the number has no exact reading", span=span_of(node), repair="write fewer digits")
    return constant_of(value, type_of(value, text), span_of(node))


def _boolean(node: exp.Expr, _: Scope) -> Scalar:
    return constant_of(bool(node.this), BOOLEAN, span_of(node))


def _null(node: exp.Expr, _: Scope) -> Scalar:
    return Scalar(exp.Null(), NULL, span_of(node))


def _paren(node: exp.Expr, scope: Scope) -> Scalar:
    inner = lower_scalar(node.this, scope)
    return Scalar(inner.tree, inner.facts, span_of(node))


def _connector(node: exp.Expr, scope: Scope) -> Scalar:
    """A chain of one connector at once: thousands of conjuncts must not be as many levels of recursion."""
    kind = exp.And if isinstance(node, exp.And) else exp.Or
    chain: list[exp.Expr] = []
    left: exp.Expr = node
    while isinstance(left, kind):
        chain.append(left.expression)
        left = left.this
    return comparisons.connect(kind, [lower_scalar(n, scope) for n in [left, *reversed(chain)]], span_of(node))


def _not(node: exp.Expr, scope: Scope) -> Scalar:
    return comparisons.negation(lower_scalar(node.this, scope), span_of(node))


def _compare(node: exp.Expr, scope: Scope) -> Scalar:
    a, b = lower_scalar(node.this, scope), lower_scalar(node.expression, scope)
    return comparisons.compare(type(node), a, b, span_of(node))


def _distinct(node: exp.Expr, scope: Scope) -> Scalar:
    a, b = lower_scalar(node.this, scope), lower_scalar(node.expression, scope)
    return comparisons.distinct(type(node), a, b, span_of(node))


def _between(node: exp.Expr, scope: Scope) -> Scalar:
    if node.args.get("symmetric"):
        raise refusal(
            "DP230", "BETWEEN SYMMETRIC is not answered", span=span_of(node), repair="put the lower bound first"
        )
    value, low, high = (lower_scalar(node.args[key], scope) for key in ("this", "low", "high"))
    return comparisons.between(value, low, high, span_of(node))


def _in(node: exp.Expr, scope: Scope) -> Scalar:
    members = node.expressions
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not members:
        raise refusal(
            "DP220",
            "IN with a subquery cannot stand here",
            span=span_of(node),
            repair="list the values, or join the table",
        )
    return comparisons.member(lower_scalar(node.this, scope), [lower_scalar(m, scope) for m in members], span_of(node))


def _is(node: exp.Expr, scope: Scope) -> Scalar:
    value, test = lower_scalar(node.this, scope), node.expression
    if isinstance(test, exp.Null):
        return comparisons.is_null_test(value, span_of(node))
    if isinstance(test, exp.Boolean):
        return comparisons.is_truth_test(value, bool(test.this), span_of(node))
    raise unknown("IS", node)


_ARITHMETIC: dict[type[exp.Expr], Callable[[Scalar, Scalar, Span | None], Scalar]] = {
    exp.Add: arithmetic.add,
    exp.Sub: arithmetic.subtract,
    exp.Mul: arithmetic.multiply,
    exp.Div: arithmetic.divide,
    exp.IntDiv: arithmetic.divide_whole,
    exp.Mod: arithmetic.modulo,
}


def _operator(node: exp.Expr, scope: Scope) -> Scalar:
    if node.args.get("typed") or node.args.get("safe"):
        raise unknown("/", node)
    span = span_of(node)
    if isinstance(node, exp.Add | exp.Sub):
        sign = 1 if isinstance(node, exp.Add) else -1
        step = shifts.step_of(node.expression, span_of(node.expression))
        if step is not None:
            return _moved(node.this, step, sign, span, scope)
        step = shifts.step_of(node.this, span_of(node.this)) if sign > 0 else None
        if step is not None:
            return _moved(node.expression, step, sign, span, scope)
        a, b = lower_scalar(unwrapped(node.this), scope), lower_scalar(unwrapped(node.expression), scope)
        dated = [s.facts.type.kind in (Kind.DATE, Kind.TIMESTAMP) for s in (a, b)]
        if all(dated) and sign < 0:
            return dates.days_between(a, b, span)
        if dated[0] or (dated[1] and sign > 0):
            return shifts.moved_by_days(a, b, sign, span) if dated[0] else shifts.moved_by_days(b, a, sign, span)
        return _ARITHMETIC[type(node)](a, b, span)
    return _ARITHMETIC[type(node)](lower_scalar(node.this, scope), lower_scalar(node.expression, scope), span)


def _moved(moment: exp.Expr, step: shifts.Step | shifts.Variable, sign: int, span: Span | None, scope: Scope) -> Scalar:
    """A date and an INTERVAL beside it."""
    start = lower_scalar(unwrapped(moment), scope)
    if isinstance(step, shifts.Step):
        return shifts.moved(start, step, sign, span)
    return shifts.moved_by(start, step.unit, lower_scalar(step.amount, scope), sign, span)


def _date_add(node: exp.Expr, scope: Scope) -> Scalar:
    """date_add(d, INTERVAL 1 DAY)."""
    step = None if node.args.get("unit") else shifts.step_of(node.expression, span_of(node.expression))
    if step is None:
        raise refusal(
            "DP231", "date_add takes a date and an INTERVAL", span=span_of(node), repair="write d + INTERVAL 1 DAY"
        )
    return _moved(node.this, step, 1, span_of(node), scope)


def _escape(node: exp.Expr, scope: Scope) -> Scalar:
    """x LIKE 'a!%' ESCAPE '!'."""
    test = node.this
    if not isinstance(test, exp.Like | exp.ILike):
        raise unknown("ESCAPE", node)
    text, pattern, escape = (lower_scalar(part, scope) for part in (test.this, test.expression, node.expression))
    return patterns.like(test, text, pattern, escape, span_of(node))


def _interval(node: exp.Expr, _: Scope) -> Scalar:
    reason = "an INTERVAL stands beside + or - of a date, and nowhere else"
    raise refusal("DP231", reason, span=span_of(node), repair="compare days: date_diff('day', a, b) > 1")


def _negate(node: exp.Expr, scope: Scope) -> Scalar:
    return arithmetic.negate(lower_scalar(node.this, scope), span_of(node))


def _cast(node: exp.Expr, scope: Scope) -> Scalar:
    return cast_to(node, lower_scalar(node.this, scope), span_of(node))


def _case(node: exp.Expr, scope: Scope) -> Scalar:
    """CASE, IF. A branch is lowered under what its conditions say, so that `CASE WHEN x > 100 THEN 100 ELSE x END`
    is at most 100; the proofs of totality know nothing of that, since DuckDB may compute every branch for every row."""
    if isinstance(node, exp.If):
        whens, default, operand = [(node.this, node.args["true"])], node.args.get("false"), None
    else:
        whens = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        default, operand = node.args.get("default"), node.args.get("this")
    tests = [lower_scalar(when, scope) for when, _ in whens]
    if operand is None:
        tests = [comparisons.condition(test, "WHEN") for test in tests]
    else:
        _, (value, *tests) = unify([lower_scalar(operand, scope), *tests], "CASE")
        repeatable(value, len(tests))
    branches: list[Scalar] = []
    for when, then in whens:
        test = when if operand is None else exp.EQ(this=copied(operand), expression=copied(when))
        branches.append(lower_scalar(then, assume(scope, test, True, False, lower_scalar)))
        scope = assume(scope, test, False, True, lower_scalar)
    branches.append(lower_scalar(default, scope) if default is not None else Scalar(exp.Null(), NULL))
    type_, typed = unify(branches, "CASE")
    ifs = [exp.If(this=test.tree, true=branch.tree) for test, branch in zip(tests, typed, strict=False)]
    tree = exp.Case(ifs=ifs, default=typed[-1].tree)
    if operand is not None:
        tree.set("this", value.tree)
    facts = joined([t.facts for t in typed], type_, nullable=any(t.facts.nullable for t in typed))
    return arithmetic.in_its_type(Scalar(tree, facts, span_of(node)), typed)


_RULES: dict[type[exp.Expr], Lower] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.And: _connector,
    exp.Or: _connector,
    exp.Not: _not,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compare),
    exp.NullSafeEQ: _distinct,
    exp.NullSafeNEQ: _distinct,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    **dict.fromkeys(_ARITHMETIC, _operator),
    exp.DateAdd: _date_add,
    exp.Escape: _escape,
    **dict.fromkeys((exp.Interval, exp.ToDays), _interval),
    exp.Neg: _negate,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _case,
}
