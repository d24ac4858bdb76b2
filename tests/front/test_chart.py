"""Bars with their intervals, drawn to a scale that a reader can check by counting columns."""

from __future__ import annotations

import pytest

from dpsql.errors import Error
from dpsql.front.cells import ASCII
from dpsql.front.chart import MOST_BARS, chart, drawable
from tests.front.fake_session import Session, answer


def receipt() -> object:
    return Session()._receipt(0)  # type: ignore[arg-type]


def drawn(values: list[object], widths: list[float | None], **options: object) -> list[str]:
    names = [f"g{i}" for i in range(len(values))]
    return chart(answer({"g": names, "n": values}, [None, widths]), **options).splitlines()  # type: ignore[arg-type]


def test_bars_and_intervals_are_to_scale() -> None:
    # 60 columns for 0 to 120, the end of the longest interval.
    lines = drawn([100, 50, 10], [20.0, 10.0, 0.5], width=75)
    assert lines[0] == "n"
    bars = [line[4:64] for line in lines[1:]]
    assert [bar.index("├") if "├" in bar else None for bar in bars] == [39, 20, None]
    assert [bar.rindex("┤") if "┤" in bar else None for bar in bars] == [59, 30, None]
    assert bars[0].count("┼") == 1
    assert bars[0].index("┼") == round(100 / 120 * 59)
    assert bars[2].strip() == "█████│"


def test_values_below_zero_go_to_the_left() -> None:
    left, right = (line[4:] for line in drawn([-10, 10], [2.0, 2.0], width=60)[1:])
    zero = right.index("█")
    assert left.rindex("█") == zero
    assert "┤" not in left[zero + 1 :]


def test_nothing_and_infinity_leave_the_bar_out() -> None:
    lines = drawn([5, None, 7], [1.0, None, float("inf")], width=60)
    assert lines[2].split() == ["g1", "NULL"]
    assert "∞" in lines[3]
    assert "├" not in lines[3]


def test_all_zero() -> None:
    assert "│" in drawn([0, 0], [0.0, 0.0], width=60)[1]


def test_signs_that_every_terminal_has() -> None:
    text = "\n".join(drawn([100, 50], [20.0, 10.0], width=60, signs=ASCII))
    assert text.isascii()
    assert "#" in text


def test_narrow_screens() -> None:
    names = ["a very long name of a group", "b"]
    text = chart(answer({"g": names, "n": [100, 50]}, [None, [20.0, 10.0]]), width=40)
    assert max(map(len, text.splitlines())) <= 40


def test_another_column() -> None:
    found = answer({"g": ["a"], "n": [1], "m": [2]}, [None, [1.0], [1.0]])
    assert chart(found, column="M").splitlines()[0] == "m"
    with pytest.raises(Error, match=r'no column "mm" with an interval\. Did you mean "m"'):
        chart(found, column="mm")
    with pytest.raises(Error, match="no column with an interval"):
        chart(answer({"g": ["a"]}))


def test_many_groups() -> None:
    assert drawn([1] * 60, [1.0] * 60, width=60)[-1] == f"({60 - MOST_BARS} more not drawn)"


def test_grouped_results_are_drawable() -> None:
    session = Session()
    assert drawable(session.execute("SELECT department FROM sales"))
    assert not drawable(session.execute("SELECT public"))
    assert not drawable(session.execute("SHOW TABLES"))
