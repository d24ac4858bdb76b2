"""Searching text by patterns: LIKE, ILIKE, SIMILAR TO and the functions of regular expressions. Patterns are literals.

DuckDB matches a LIKE pattern of `%` alone piece by piece. One that has `_` or an ESCAPE too it matches by trying every
place for every `%`, which takes n^k steps: such a pattern becomes a regular expression, whose time is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from dpsql.compile.composed import grown
from dpsql.compile.ir import Scalar
from dpsql.compile.kinds import BOOLEAN
from dpsql.compile.ranges import facts_of
from dpsql.compile.regex import MAX_ATOMS, BadPattern, groups_of, literally
from dpsql.compile.strings import changed_case, literal_number, literal_text, made, text
from dpsql.compile.trees import wrapped
from dpsql.errors import Span, refusal

WithOptions = Callable[[Scalar, Scalar, Scalar, Scalar | None, Span | None], Scalar]
"""A rule of three arguments, then options, then the span."""


class Pattern(NamedTuple):
    """A pattern of LIKE: characters, and None for `%`, True for `_`."""

    parts: tuple[str | bool | None, ...]

    @property
    def is_plain(self) -> bool:
        """Whether a LIKE of DuckDB's says it, and matches it in linear time."""
        if any(part in ("%", "_") for part in self.parts):
            return False
        kept = list(self.parts)
        while kept and kept[-1] is None:
            kept.pop()
        return True not in kept or kept.count(None) <= 1


def like(node: exp.Expr, a: Scalar, pattern: Scalar, escape: Scalar | None, span: Span | None) -> Scalar:
    """LIKE, ILIKE, their negations and ESCAPE. ILIKE is LIKE on lower case, as in DuckDB."""
    name = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    a = text(a, name)
    parts = _parts(literal_text(pattern, f"the pattern of {name}"), escape, pattern)
    if name == "ILIKE":
        parts = Pattern(tuple(_lowered(p, pattern.span) if isinstance(p, str) else p for p in parts.parts))
        a = changed_case(exp.Lower, a, a.span)
    negated = bool(node.args.get("negate"))
    facts = facts_of(BOOLEAN, nullable=a.facts.nullable)
    if parts.is_plain:
        wanted = "".join("%" if p is None else "_" if p is True else str(p) for p in parts.parts)
        tree: exp.Expr = exp.Like(this=wrapped(a.tree), expression=exp.Literal.string(wanted))
        if negated:
            tree.set("negate", True)
        return Scalar(tree, facts, span)
    if len(parts.parts) > MAX_ATOMS:
        raise refusal("DP231", f"a pattern of {name} with _ or ESCAPE is too long", span=pattern.span)
    wanted = "".join(".*" if p is None else "." if p is True else literally(str(p)) for p in parts.parts)
    options = exp.Literal.string("s")  # so that . is a line break, too
    tree = exp.RegexpFullMatch(this=a.tree, expression=exp.Literal.string(wanted), options=options)
    return Scalar(exp.Not(this=tree) if negated else tree, facts, span)


def _parts(wanted: str, escape: Scalar | None, pattern: Scalar) -> Pattern:
    mark = "" if escape is None else literal_text(escape, "the character of ESCAPE")
    if len(mark) > 1 or not mark.isascii():
        raise refusal("DP231", "ESCAPE takes one character", span=pattern.span, repair="write LIKE 'a!%' ESCAPE '!'")
    parts: list[str | bool | None] = []
    characters = iter(wanted)
    for char in characters:
        if char == mark:
            after = next(characters, None)
            if after is None:
                raise refusal("DP231", "the pattern ends with its escape character", span=pattern.span)
            parts.append(after)
        else:
            parts.append(None if char == "%" else True if char == "_" else char)
    return Pattern(tuple(parts))


def _lowered(char: str, span: Span | None) -> str:
    if len(char.lower()) != 1:
        raise refusal("DP231", "the pattern has a letter without a lower case of its own", span=span)
    return char.lower()


def matched(node: exp.Expr, name: str, arguments: Sequence[Scalar], span: Span | None) -> Scalar:
    """regexp_matches (x ~ 'a'): whether the pattern is in the text. regexp_full_match, SIMILAR TO: whether it is all of
    it."""
    a, wanted = text(arguments[0], name), arguments[1]
    checked(wanted, name)
    options = options_of(arguments[2], name) if len(arguments) == 3 else None
    pattern = exp.Literal.string(literal_text(wanted, name))
    tree: exp.Expr
    if isinstance(node, exp.RegexpLike):
        tree = exp.RegexpLike(this=a.tree, expression=pattern, flag=options)
    else:
        tree = exp.RegexpFullMatch(this=a.tree, expression=pattern, options=options)
    return Scalar(tree, facts_of(BOOLEAN, nullable=a.facts.nullable), span)


def extracted(a: Scalar, wanted: Scalar, group: Scalar, options: Scalar | None, span: Span | None) -> Scalar:
    """regexp_extract(s, 'a(b)', 1): the first match, or a group of it; '' where there is none."""
    a = text(a, "regexp_extract")
    groups = checked(wanted, "regexp_extract")
    number = literal_number(group, "regexp_extract", 9)
    if not 0 <= number <= groups:
        raise refusal("DP231", f"the pattern has {groups} groups", span=wanted.span, repair="put parentheses around it")
    flags = None if options is None else options_of(options, "regexp_extract")
    tree = exp.RegexpExtract(
        this=a.tree,
        expression=wanted.tree,
        group=exp.Literal.number(str(number)),
        parameters=flags,
        null_if_pos_overflow=True,
    )
    return made(tree, [a], None, a.facts.size, span)


def replaced(a: Scalar, wanted: Scalar, new: Scalar, options: Scalar | None, span: Span | None) -> Scalar:
    r"""regexp_replace(s, 'a', 'b' [, 'g']): the first match, or all. \0 to \9 in what is put in are groups.

    A match of nothing may stand before each character, so what is put in counts once for each; each group is a part of
    the match, so it counts once more."""
    a = text(a, "regexp_replace")
    groups = checked(wanted, "regexp_replace")
    characters, references = _replacement(new, groups)
    flags = None if options is None else options_of(options, "regexp_replace", more="g")
    everywhere = options is not None and "g" in literal_text(options, "")
    size = a.facts.size * (1 + references + (characters if everywhere else 0))
    tree = exp.RegexpReplace(
        this=a.tree, expression=wanted.tree, replacement=new.tree, modifiers=flags, single_replace=True
    )
    return made(tree, [a], None, grown(size, span), span)


def checked(wanted: Scalar, name: str) -> int:
    """The number of groups of a pattern that can be matched in bounded time and memory."""
    try:
        return groups_of(literal_text(wanted, f"the pattern of {name}"))
    except BadPattern as bad:
        raise refusal(
            "DP231",
            f"the regular expression is not answered: {bad}",
            span=wanted.span,
            repair="use LIKE, or several simpler patterns with AND and OR",
        ) from None


def options_of(a: Scalar, name: str, more: str = "") -> exp.Expr:
    """The options of a match: c (as it is written), i (case counts not), s (. is a line break, too)."""
    allowed = "cis" + more
    letters = literal_text(a, f"the options of {name}")
    if not set(letters) <= set(allowed) or {"c", "i"} <= set(letters):
        raise refusal(
            "DP231",
            f"the options of {name} are letters of '{allowed}'",
            span=a.span,
            repair="leave them out, or write 'i' where case does not count",
        )
    return exp.Literal.string(letters)


def _replacement(new: Scalar, groups: int) -> tuple[int, int]:
    """How many characters, and how many groups, are put in."""
    wanted = literal_text(new, "what regexp_replace puts in")
    characters = references = 0
    rest = iter(wanted)
    for char in rest:
        if char != "\\":
            characters += 1
            continue
        after = next(rest, "")
        if after == "\\":
            characters += 1
        elif after.isascii() and after.isdigit() and int(after) <= groups:
            references += 1
        else:
            raise refusal(
                "DP231",
                f"after \\ stands a number of a group, up to {groups}, or another \\",
                span=new.span,
                repair="write \\1 for the first group, and \\\\ for the character itself",
            )
    return characters, references
