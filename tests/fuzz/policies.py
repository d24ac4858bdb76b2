"""Policies that are changed: each is refused with DP301, or means something, and then serves the library's data or is
refused with DP3xx."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from dpsql.audit.data import home as home_in
from dpsql.errors import Error
from dpsql.policy.load import load_policy
from dpsql.session import open_session
from tests.fuzz.hunt import End, raised_at
from tests.fuzz.library import DATABASE, POLICY, Watched, build, removed
from tests.policy.test_policy_fuzz import NASTY, TEXTS, WORDS

_HUGE = [
    "values = [" + "1, " * 20_000 + "]",
    "description = '" + "x" * 100_000 + "'",
    "a = " + "[" * 3000,
    "a." * 3000 + "b = 1",
    "bounds = [-" + "9" * 400 + ", " + "9" * 400 + "]",
]
_BRACKETS = ["[{}]", "[[{}]]", "[tables.{}]", "[tables.people.{}]", "[tables.people.columns.{}]", "[[tables.loans.{}]]"]
_LONG = 200_000


class Policies:
    """TOML by lines."""

    name, ending = "policy", ".toml"

    def __init__(self, folder: Path):
        self._folder = folder
        build(folder)

    def close(self) -> None:
        removed(self._folder)

    def seeds(self) -> list[bytes]:
        return [text.encode() for text in (POLICY, *TEXTS)]

    def parts(self, content: bytes) -> list[bytes]:
        return content.splitlines(keepends=True)

    def mutated(self, rng: Random, known: Sequence[bytes]) -> bytes:
        content = POLICY.encode() if rng.random() < 0.3 else rng.choice(known)
        lines = content.decode("utf-8", "replace").splitlines() or [""]
        others = rng.choice(known).decode("utf-8", "replace").splitlines() or [""]
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            lines = _changed(rng, lines, others) or [""]
        if rng.random() < 0.05:
            at = rng.randint(0, len(content))
            return content[:at] + rng.randbytes(rng.randint(1, 4)) + content[at + 1 :]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")[:_LONG]

    def ask(self, content: bytes) -> End:
        file = self._folder / "library.toml"
        file.write_bytes(content)
        try:
            policy = load_policy(file)
        except Error as error:
            said = "".join(c for c in error.reason.replace(str(file), "") if c.isalpha())
            kind = f"DP301 {raised_at(error.__traceback__)} {said[:60]}"
            return End(kind, "" if error.code == "DP301" else f"{error.code} of the loader")
        except Exception as error:
            return End("load", f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}")
        if load_policy(file).digest != policy.digest:
            return End("digest", "one policy has two digests")
        return self._served(file, list(policy.tables))

    def _served(self, file: Path, tables: list[str]) -> End:
        """A session under the policy, in a home that is new."""
        home = self._folder / "home"
        try:
            with home_in(home):
                watched = Watched(open_session(file, self._folder / DATABASE))
                try:
                    kinds = ""
                    for table in tables[:4]:
                        end, _ = watched.execute(f'SELECT COUNT(*) AS n FROM "{table}"')
                        if end.wrong:
                            return end
                        kinds += f" {end.kind}"
                    return End(f"serves{kinds}")
                finally:
                    watched.close()
        except Error as error:
            kind = f"{error.code} {raised_at(error.__traceback__)}"
            return End(kind, _unforeseen(error))
        except Exception as error:
            return End("open", f"{type(error).__name__}: {error} at {raised_at(error.__traceback__)}")
        finally:
            removed(home)


def _unforeseen(error: Error) -> str:
    """DP303 of a good database: a policy that names and types allow, and the SQL that makes the snapshot does not."""
    foreseen = error.code[2] in "34" and error.code != "DP303"
    return "" if foreseen else f"{error.code}: {error.reason}"


def _changed(rng: Random, lines: list[str], others: list[str]) -> list[str]:
    at = rng.randrange(len(lines))
    key, equals, _ = lines[at].partition("=")
    match rng.randrange(10):
        case 0:
            return lines[:at] + lines[at + 1 :]
        case 1:
            return [*lines[:at], lines[at], *lines[at:]]
        case 2:
            return [*lines[:at], rng.choice(others), *lines[at:]]
        case 3 | 4 if equals:
            return [*lines[:at], f"{key}= {rng.choice(NASTY)}", *lines[at + 1 :]]
        case 5 if equals:
            other = rng.choice([o.partition("=")[2] for o in others if "=" in o] or ["1"])
            return [*lines[:at], f"{key}={other}", *lines[at + 1 :]]
        case 6 if equals:
            pairs = {f"{rng.choice(WORDS)} = {rng.choice(NASTY)}" for _ in range(2)}
            return [*lines[:at], f"{key}= {{ {', '.join(sorted(pairs))} }}", *lines[at + 1 :]]
        case 7:
            return [*lines[:at], rng.choice(_BRACKETS).format(rng.choice(WORDS)), *lines[at:]]
        case 8 if rng.random() < 0.1:
            return [*lines[:at], rng.choice(_HUGE), *lines[at:]]
        case _:
            place = rng.randint(0, len(lines[at]))
            return [
                *lines[:at],
                lines[at][:place] + rng.choice(list("\"'[]{}=,.#-0 \\")) + lines[at][place:],
                *lines[at + 1 :],
            ]
