"""How accurate other systems are on the questions of `bench.accuracy`: measured once, kept in `peers.json`.

    PEERBENCH_DATA=DATA VENV/bin/python -m bench.peers ADAPTERS PEER SCALE RESULT.json

Run by the Python of the peer's own environment; nothing of dpsql is imported. ADAPTERS is a folder with the peer's
adapter, which is not a part of this repository: `adapters/PEER.py` with `Adapter(scale).prepare(question, spec)`, which
gives a function that asks once, and `common.py` with the questions' SQL, keys and value bounds. What is measured is put
into RESULT.json, beside what that file held.

SmartNoise SQL refuses noise of a scale above 10,000,000. It gives the same answers in thousands of dollars, so it is
asked for those.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.errors import Answer, errors

DRAWS = 100
QUESTIONS = ("q1", "q2", "q3", "q4", "q5", "q6", "q7")

FACTS = {
    "q2": {"rows": 41},
    "q3": {"rows": 178},
    "q4": {"rows": 41},
    "q6": {"rows": 41, "groups": 41},
    "q7": {"rows": 178},
}
"""The most that one customer has at scale 1: 41 orders, on as many days, and 178 line items."""

SAMPLED = {
    "q2": {"rows": 36},
    "q3": {"rows": 130},
    "q4": {"rows": 20},
    "q6": {"rows": 20, "groups": 20},
    "q7": {"rows": 45},
}
"""Lower limits that cost systems which leave rows out less than the noise they save."""

SCALED = {
    "q2": {"rows": 18},
    "q3": {"rows": 44},
    "q4": {"rows": 20},
    "q6": {"rows": 7, "groups": 41},
    "q7": {"rows": 20},
}
"""The same for one that scales a customer's vector down: near the longest vector of any, in L2."""

OWN = {"snsql": SAMPLED, "opendp": SAMPLED, "qrlew": SCALED}


def caps_of(peer: str) -> dict[str, dict[str, dict[str, int]]]:
    """By name, what is changed in the questions' own limits, which are the published ones."""
    return {"facts": FACTS, "published": {}, "own": OWN.get(peer, {})}


THOUSANDS = {"snsql": {"li": "revenue", "orders": "o_totalprice"}}
"""By peer, the views that are to hold a column of dollars in thousands."""


def to_thousands(adapter: Any, peer: str) -> None:
    for view, column in THOUSANDS.get(peer, {}).items():
        adapter.con.execute(f"ALTER VIEW {view} RENAME TO {view}_in_dollars")
        smaller = f"* REPLACE ({column} / 1000 AS {column})"
        adapter.con.execute(f"CREATE VIEW {view} AS SELECT {smaller} FROM {view}_in_dollars")


def measured(
    adapter: Any, name: str, spec: Mapping[str, Any], truth: Answer, unit: float, seconds: float
) -> dict[str, Any]:
    """The errors of up to DRAWS answers, at least two, asked for so long. unit: what 1 in an answer stands for. A peer
    that cannot answer says why."""
    try:
        ask = adapter.prepare(name, spec)
        answers, until = [ask(), ask()], time.monotonic() + seconds
        while len(answers) < DRAWS and time.monotonic() < until:
            answers.append(ask())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # one of the peers panics, which is no Exception
        return {"refused": f"{type(error).__name__}: {error}"[:300]}
    shown = [{key: value * unit for key, value in answer.items() if value is not None} for answer in answers]
    return asdict(errors(truth, shown))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the errors of another system.")
    parser.add_argument("adapters", type=Path)
    parser.add_argument("peer")
    parser.add_argument("scale", help="as the adapters write it, such as 0_1")
    parser.add_argument("result", type=Path)
    parser.add_argument("--seconds", type=float, default=40.0, help="for each question")
    parser.add_argument("--caps", choices=list(caps_of("")), action="append")
    parser.add_argument("--questions", nargs="*", default=QUESTIONS)
    given = parser.parse_args()
    sys.path.insert(0, str(given.adapters))
    common = importlib.import_module("common")
    module = importlib.import_module(f"adapters.{given.peer}")
    adapter, exact = module.Adapter(given.scale), common.connect(given.scale)
    to_thousands(adapter, given.peer)
    for caps in given.caps or caps_of(given.peer):
        changed = caps_of(given.peer)[caps]
        for name in changed if caps == "own" else given.questions:
            spec = common.QUERIES[name] | changed.get(name, {})
            truth = common.rows_to_dict(exact.execute(spec["sql"]).fetchall(), len(spec["key"]))
            unit = 1000.0 if given.peer in THOUSANDS and "clamp" in spec else 1.0
            if "clamp" in spec:
                spec["clamp"] = tuple(bound / unit for bound in spec["clamp"])
            found = measured(adapter, name, spec, truth, unit, given.seconds)
            found["limit"] = {n: spec[n] for n in ("rows", "groups")}
            print(given.peer, given.scale, caps, name, json.dumps(found), flush=True)
            kept = json.loads(given.result.read_text()) if given.result.is_file() else {}
            of_peer = kept.setdefault(given.peer, {"versions": module.versions()})
            of_peer.setdefault(given.scale.replace("_", "."), {}).setdefault(caps, {})[name] = found
            given.result.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
