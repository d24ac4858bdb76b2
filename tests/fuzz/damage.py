"""Damage to files, as text that can be kept and asked again: a line for each blow.

    FILE flip AT BIT      FILE put AT HEX       FILE junk AT LENGTH SEED    FILE zero AT LENGTH
    FILE cut LENGTH       FILE grow LENGTH SEED FILE page AT OTHER          FILE older
    FILE drop             FILE empty            FILE copy OTHER             FILE mode OCTAL
    FILE folder           FILE link

Places count modulo the length of what is there, so a recipe fits files that are a little different each time. `older`
is the file as it was earlier. `page` puts the 4096 bytes of one place over those of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

PAGE = 4096
_BLOWS = ["flip"] * 6 + ["put", "junk", "junk", "zero", "zero", "cut", "cut", "grow", "page", "page"]
_FEW = ["older", "older", "drop", "empty", "copy", "mode", "folder", "link"]
_MODES = ("0", "400", "644", "777")


def recipe(rng: Random, files: Sequence[str]) -> list[str]:
    """Some blows at random to some of these files."""
    return [_blow(rng, rng.choice(files), files) for _ in range(rng.choice((1, 1, 1, 2, 4)))]


def _blow(rng: Random, file: str, files: Sequence[str]) -> str:
    at = rng.choice((rng.randrange(128), rng.randrange(PAGE * 8), rng.randrange(1 << 24)))
    match rng.choice(_BLOWS if rng.random() < 0.75 else _FEW):
        case "flip":
            return f"{file} flip {at} {rng.randrange(8)}"
        case "put":
            return f"{file} put {at} {rng.choice(('00', 'ff', '7fffffff', '80', '00000001', 'ffffffffffffffff'))}"
        case "junk":
            return f"{file} junk {at} {rng.choice((4, 64, PAGE))} {rng.randrange(1000)}"
        case "zero":
            return f"{file} zero {at} {rng.choice((4, 64, PAGE, 1 << 20))}"
        case "cut":
            return f"{file} cut {rng.choice((at, at // PAGE * PAGE))}"
        case "grow":
            return f"{file} grow {rng.choice((1, 100, PAGE))} {rng.randrange(1000)}"
        case "page":
            return f"{file} page {at // PAGE * PAGE} {rng.randrange(1 << 20) // PAGE * PAGE}"
        case "copy":
            return f"{file} copy {rng.choice(files)}"
        case "mode":
            return f"{file} mode {rng.choice(_MODES)}"
        case word:
            return f"{file} {word}"


def strike(blow: str, files: Mapping[str, Path], older: Mapping[str, bytes]) -> None:
    """Carry out one blow. What does not make sense for a file (it is gone, say) does nothing."""
    name, word, *given = blow.split()
    path = files[name]
    try:
        match word:
            case "drop":
                path.unlink()
            case "folder":
                path.unlink(missing_ok=True)
                path.mkdir()
            case "link":
                path.unlink(missing_ok=True)
                path.symlink_to("/dev/null")
            case "mode":
                path.chmod(int(given[0], 8))
            case "copy":
                path.write_bytes(files[given[0]].read_bytes())
            case "older":
                if name in older:
                    path.write_bytes(older[name])
            case _ if path.is_file():
                path.write_bytes(_changed(path.read_bytes(), word, given))
    except OSError:
        return


def _changed(content: bytes, word: str, given: Sequence[str]) -> bytes:
    size = max(len(content), 1)
    at = int(given[0]) % size if given else 0
    match word:
        case "flip":
            new = bytes([content[at] ^ 1 << int(given[1])]) if content else b""
        case "put":
            new = bytes.fromhex(given[1])
        case "junk":
            new = Random(int(given[2])).randbytes(int(given[1]))
        case "zero":
            new = bytes(int(given[1]))
        case "cut":
            return content[:at]
        case "grow":
            return content + Random(int(given[1])).randbytes(int(given[0]))
        case "page":
            other = int(given[1]) % size
            new = content[other : other + PAGE]
        case _:
            return b""
    return (content[:at] + new + content[at + len(new) :])[: len(content)]
