"""How fast the noise is: dpsql's exact laws, and discrete Laplace beside OpenDP's, in one run on one machine.

    python -m bench.noise

Prints seconds for 1,000,000 draws of scale 2^20 and their ratio; OpenDP draws fewer, and its time is scaled up (it is
proportional to the number: each draw is made by itself). Without OpenDP only our own time is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from time import perf_counter

from dpsql.privacy.mechanisms import DiscreteLaplace
from dpsql.privacy.normal import rounded_normal

DRAWS = 1_000_000
THEIR_DRAWS = 50_000
SCALE = 2**20


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least of several runs: what the machine can do when nothing else disturbs it."""
    best = float("inf")
    for _ in range(repeats):
        began = perf_counter()
        work()
        best = min(best, perf_counter() - began)
    return best


def opendp_seconds() -> float | None:
    """For DRAWS draws, from THEIR_DRAWS; None where OpenDP is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(SCALE))
    zeros = [0] * THEIR_DRAWS
    return seconds(lambda: measurement(zeros), repeats=3) * DRAWS / THEIR_DRAWS


def main() -> None:
    noise = DiscreteLaplace(Fraction(SCALE))
    ours = seconds(lambda: noise.sample(DRAWS))
    print(f"{DRAWS:,} draws of discrete Laplace noise, scale 2^20")
    print(f"  dpsql   {ours:8.2f} s")
    theirs = opendp_seconds()
    if theirs is None:
        print("  OpenDP  is not installed")
    else:
        print(f"  OpenDP  {theirs:8.2f} s  (from {THEIR_DRAWS:,} draws)")
        print(f"  OpenDP takes {theirs / ours:.1f} times as long")
    for n in (1, 10, 100, 10_000):
        print(f"  {n:>6,} draws at once: {seconds(partial(noise.sample, n), repeats=500) * 1e6:8.1f} microseconds")
    normal = seconds(lambda: rounded_normal(DRAWS, Fraction(SCALE)))
    print(f"{DRAWS:,} draws of rounded normal noise, sigma 2^20")
    print(f"  dpsql   {normal:8.2f} s")
    for n in (1, 10, 100, 10_000):
        once = seconds(partial(rounded_normal, n, Fraction(SCALE)), repeats=500)
        print(f"  {n:>6,} draws at once: {once * 1e6:8.1f} microseconds")


if __name__ == "__main__":
    main()
