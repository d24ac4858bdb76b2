"""Keyed hashes, as SQL: of a unit, and of a row's content.

Promise: without the salt nobody can make two rows, or two units, hash alike; with a fixed salt a hash is a function of
the values alone. The salt is secret, drawn once per snapshot, and stands only in statements that make the snapshot.

DuckDB's own `hash` does not give that by itself. Of strings it takes no salt and is undone with pencil and paper
(`^'?nD6`m>n8^`VC/` has the hash of `customer-comment`). Of several values it is a chain of `s = ((s ^ s >> 32) * K) ^
hash(value)`, in which a difference of one value cancels one of the next, whatever the salt: who chooses two numbers of
a row can choose them so. And an order by `hash(salt, x)` is an order by `hash(x) XOR constant`. So here

 - strings, and DECIMALs beyond 64 bits, are hashed together by MD5 behind a secret prefix, with their lengths beside;
 - each other value passes through three rounds of `hash` after a salt of its column's own. One round is a bijection of
   64 bits, so different values stay different, and differences between outputs cannot be foreseen without the salt;
 - NULLs are told apart by flags, since the hash of NULL is also that of some number;
 - two chains, with salts of their own and in opposite order, give 2 x 64 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from dpsql.policy.facts import Kind, SqlType

_WIDEST = 18
"""DECIMALs of more digits are stored in 128 bits, which `hash` folds to 64 by XOR."""


def surrogate(value: str, salt: bytes) -> str:
    """SQL: 63 bits of MD5, keyed by the salt, of a unit's value. All units of a snapshot are of one type."""
    return f"CAST(md5_number('{_text(salt, 'unit')}' || CAST({value} AS VARCHAR)) & {2**63 - 1} AS BIGINT)"


def content_hashes(types: Sequence[SqlType | None], salt: bytes) -> tuple[str, str, str]:
    """SQL of the two hashes of (unit, c0, c1, ...), and of the MD5 that both use under the name `m`. types: of the
    columns c0, c1, ...; None for one of any other type, which is hashed as text."""
    texts = [n for n, one in enumerate(types) if _is_text(one)]
    parts = [_keyed(f"c{n}", salt, f"c{n}") for n in range(len(types)) if n not in texts]
    for start in range(0, len(types), 32):
        flags = [f"((c{n} IS NULL)::UBIGINT << {n - start})" for n in range(start, min(start + 32, len(types)))]
        parts.append(_keyed(" | ".join(flags), salt, f"nulls{start}"))
    parts += [f"strlen(CAST(c{n} AS VARCHAR))" for n in texts]
    parts += [f"CAST(m & {2**64 - 1} AS UBIGINT)", "CAST(m >> 64 AS UBIGINT)"]
    digest = "".join(f", c{n}" for n in texts)
    return (
        f"hash({_number(salt, 'first')}, unit, {', '.join(parts)})",
        f"hash({_number(salt, 'second')}, {', '.join(reversed(parts))}, unit)",
        f"md5_number(concat('{_text(salt, 'text')}'{digest}))",
    )


def _is_text(one: SqlType | None) -> bool:
    return one is None or one.kind is Kind.VARCHAR or (one.kind is Kind.DECIMAL and one.width > _WIDEST)


def _keyed(value: str, salt: bytes, label: str) -> str:
    return f"hash(hash(hash({_number(salt, label)}, {value})))"


def _text(salt: bytes, label: str) -> str:
    return hashlib.sha256(salt + label.encode()).hexdigest()[:32]


def _number(salt: bytes, label: str) -> str:
    return f"{int(_text(salt, label)[:16], 16)}::UBIGINT"
