"""Trees at the compiler: nodes of the project's own statements replaced, dropped, doubled and spliced into others.

A tree that no text has is of no interest: it counts where what sqlglot writes of it is read as the same tree again.
All others still end in a refusal, as texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from sqlglot import exp, serde

from dpsql.compile import canonical
from dpsql.compile.parse import Parsed, parse
from dpsql.errors import Error
from tests.fuzz.hunt import End, raised_at
from tests.fuzz.library import open_library, statements

_CLASSES = [c for c in vars(exp).values() if isinstance(c, type) and issubclass(c, exp.Expression) and c.arg_types]
_LEAVES: list[Any] = [None, True, False, [], "", "x", 0, -1, 1 << 70]


class Tree:
    """Trees as JSON, as sqlglot's own `serde` writes them."""

    name, ending = "tree", ".json"

    def __init__(self, folder: Path):
        self._library = open_library(folder)

    def close(self) -> None:
        self._library.close()

    def seeds(self) -> list[bytes]:
        return [_dumped(tree) for sql in statements() if (tree := _parsed(sql)) is not None]

    def parts(self, content: bytes) -> list[bytes]:
        return [content]

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes:
        tree = _loaded(rng.choice(known))
        for _ in range(rng.choice((1, 1, 2, 3))):
            tree = _changed(rng, tree, _loaded(rng.choice(known)))
        try:
            return _dumped(tree)
        except Exception:  # no tree at all: sqlglot's own serde does not know what to write
            return rng.choice(known)

    def ask(self, content: bytes) -> End:
        tree = _loaded(content)
        self._library.settle()
        try:
            text = canonical.write(tree)
        except Error as error:
            return End(f"unwritten {error.code}")
        end, _ = self._library.execute(text)
        wrong = end.wrong or self._compiled(tree, text)
        return End(end.kind, f"{wrong}\n{text}" if wrong else "")

    def _compiled(self, tree: exp.Expr, text: str) -> str:
        """The tree itself where the text's reading would be, if it is what the text says."""
        try:
            again = canonical.check_shape(canonical.reread(text))
            if isinstance(tree, exp.Query) and canonical.same(again, tree):
                self._library.compile(Parsed(again, text, text))
        except Error as error:
            if error.code.startswith("DP9"):
                return f"{error.code}: {error.reason} at {raised_at(error.__traceback__)}"
        except Exception as error:
            return f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}"
        return ""


def _parsed(sql: str) -> exp.Query | None:
    try:
        return parse(sql).tree
    except Error:
        return None


def _dumped(tree: exp.Expr) -> bytes:
    return json.dumps(serde.dump(tree), separators=(",", ":")).encode()


def _loaded(content: bytes) -> exp.Expr:
    tree = serde.load(json.loads(content))
    assert isinstance(tree, exp.Expr)
    return tree


def _changed(rng: Random, tree: exp.Expr, donor: exp.Expr) -> exp.Expr:
    """One change of one node that is not the root."""
    nodes = [n for n in tree.walk() if n.parent is not None]
    if not nodes:
        return donor
    node, parts = rng.choice(nodes), list(donor.walk())
    alike = [p for p in parts if isinstance(p, type(node)) or type(p).__mro__[1] is type(node).__mro__[1]]
    match rng.randrange(8):
        case 0 | 1:
            node.replace((rng.choice(alike or parts)).copy())
        case 2:
            node.replace(rng.choice(parts).copy())
        case 3:
            node.pop()
        case 4 if node.arg_key and isinstance(siblings := node.parent.args.get(node.arg_key), list):
            node.parent.set(node.arg_key, siblings + [node.copy()])
        case 5:
            owner, kind = rng.choice(nodes), rng.choice(_CLASSES)
            owner.replace(kind(**{key: _argument(rng, parts) for key in list(kind.arg_types)[: rng.randint(1, 4)]}))
        case 6 if node.args:
            node.set(rng.choice([*node.args, *node.arg_types]), _argument(rng, parts))
        case _:
            other = rng.choice(nodes)
            if not any(other is n for n in node.walk()) and not any(node is n for n in other.walk()):
                node.replace(other.copy())
                other.replace(node.copy())
    return tree


def _argument(rng: Random, parts: Sequence[exp.Expr]) -> Any:
    match rng.randrange(4):
        case 0:
            return rng.choice(_LEAVES)
        case 1:
            return [rng.choice(parts).copy() for _ in range(rng.randint(1, 3))]
        case _:
            return rng.choice(parts).copy()
