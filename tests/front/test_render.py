"""What people see: rounding by the noise, tables, footers, and nothing that steers a terminal."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.answer import Answer, ColumnReceipt, Receipt
from dpsql.front import cells, markup, render
from dpsql.front.diagnostics import visible
from dpsql.front.numerals import amount, grouped, noised, plain
from dpsql.ledger import Balance

QUARTER, THREE = Fraction(1, 4), Fraction(3)


def receipt(epsilon: Fraction = QUARTER, **more: Any) -> Receipt:
    return Receipt(epsilon, Fraction(0), THREE - epsilon, Fraction(0), **more)


def table(columns: dict[str, Any], half_widths: Any = (), **options: Any) -> str:
    return render.table(Answer(pa.table(columns), half_widths, receipt()), **options)


# ------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("value", "half_width", "places", "shown"),
    [
        (1136, 14.0, 0, "1136 ± 14"),
        (1469312, 8388.0, 0, "1469300 ± 8400"),
        (1469350, 8388.0, 0, "1469400 ± 8400"),
        (7, 3.0, 0, "7 ± 3"),
        (7, 2.2, 0, "7 ± 3"),  # whole numbers stay whole, and no interval is shown too narrow
        (7, 9.96, 0, "7 ± 10"),
        (-3, 14.0, 0, "-3 ± 14"),
        (0, 0.0, 0, "0 ± 0"),
        (42, 8400.0, 0, "0 ± 8400"),
        (-42, 8400.0, 0, "0 ± 8400"),  # zero has no sign
        (2**100, 1e3, 0, "1.26765e+30 ± 1e+03"),
        (3.14159, 0.0123, None, "3.142 ± 0.013"),
        (3.14159, 12.0, None, "3 ± 12"),
        (0.1, 1e-30, None, "0.1 ± 1e-30"),
        (1e300, 1e298, None, "1e+300 ± 1e+298"),
        (2.5, float("inf"), None, "2.5 ± ∞"),
        (2.5, float("nan"), None, "2.5 ± ∞"),
        (float("nan"), 1.5, None, "nan ± 1.5"),
        (Decimal("12.34"), 0.001, 2, "12.34 ± 0.01"),
        (Decimal("12.34"), 0.51, 2, "12.34 ± 0.51"),
        (Decimal("1234.56"), 99.5, 2, "1235 ± 100"),
    ],
)
def test_digits_follow_the_noise(value: Any, half_width: float, places: int | None, shown: str) -> None:
    assert " ± ".join(noised(value, half_width, places)) == shown


@given(st.floats(-1e18, 1e18), st.floats(1e-9, 1e18))
def test_a_shown_interval_is_never_narrower_and_never_far_off(value: float, half_width: float) -> None:
    shown, error = noised(value, half_width, None)
    assert half_width <= float(error) <= 1.1 * half_width + 1e-300
    assert abs(float(shown) - value) <= 0.051 * float(error) + abs(value) * 1e-15


@given(st.integers(-(10**12), 10**12), st.floats(0.25, 1e12))
def test_a_shown_count_is_a_whole_number_within_a_twentieth_of_its_noise(value: int, half_width: float) -> None:
    shown, error = noised(value, half_width, 0)
    assert half_width <= int(error) < 1.1 * half_width + 1
    assert abs(int(shown) - value) <= 0.051 * int(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1", "1"),
        ("1136", "1,136"),
        ("-1469300", "-1,469,300"),
        ("12345.678", "12,345.678"),
        ("∞", "∞"),
        ("nan", "nan"),
    ],
)
def test_grouping(text: str, shown: str) -> None:
    assert grouped(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.1 + 0.2, "0.3"), (3.0, "3.0"), (1e20, "1e+20"), (Decimal("1E+3"), "1000"), (10**30, "1" + "0" * 30)],
)
def test_numbers_without_an_interval(value: int | float | Decimal, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(
    ("fraction", "down", "up"),
    [
        (Fraction(0), "0", "0"),
        (Fraction(11, 4), "2.75", "2.75"),
        (Fraction(1, 3), "0.333333", "0.333334"),
        (Fraction(8, 3), "2.66666", "2.66667"),
        (Fraction(1000), "1000", "1000"),
        (Fraction(12345678), "12345678", "12345678"),
        (Fraction(1, 10**6), "1e-6", "1e-6"),
        (Fraction(1, 3 * 10**6), "3.33333e-7", "3.33334e-7"),
    ],
)
def test_amounts_err_on_the_safe_side(fraction: Fraction, down: str, up: str) -> None:
    assert (amount(fraction), amount(fraction, up=True)) == (down, up)


# ------------------------------------------------------------------------------------------------------- tables


def test_a_table() -> None:
    columns = {
        "department": ["GROCERY", "DRUG GM", None],
        "households": [2401, 1136, -7],
        "sales": [1469312.25, 980.5, None],
        "open": [True, False, None],
        "store": [31742, 5, 400],
    }
    half_widths = [None, [14.0, 14.0, 9.0], [8388.0, 8388.0, None], None, None]
    assert table(columns, half_widths).splitlines() == [
        " department │ households │             sales │ open  │ store",
        "────────────┼────────────┼───────────────────┼───────┼───────",
        " GROCERY    │  2401 ± 14 │ 1,469,300 ± 8,400 │ true  │ 31742",
        " DRUG GM    │  1136 ± 14 │     1,000 ± 8,400 │ false │     5",
        " NULL       │    -7 ±  9 │      NULL         │ NULL  │   400",
        "(3 rows)",
    ]


def test_wide_characters_keep_columns_straight() -> None:
    assert table({"name": ["日本", "e\u0301te\u0301", "plain"], "n": [1, 22, 333]}).splitlines() == [
        " name  │   n",
        "───────┼─────",
        " 日本  │   1",
        " e\u0301te\u0301   │  22",
        " plain │ 333",
        "(3 rows)",
    ]


def test_null_empty_text_and_the_word_null_differ() -> None:
    assert table({"t": [None, "", "NULL", "'NULL'", "null"]}).splitlines()[2:] == [
        " NULL",
        "",
        " 'NULL'",
        " ''NULL''",
        " null",
        "(5 rows)",
    ]


def test_one_row_no_rows_no_columns() -> None:
    assert table({"n": [1]}).endswith("(1 row)")
    assert table({"n": pa.array([], pa.int64())}) == " n\n───\n(0 rows)"
    assert table({}) == "ok"


def test_rows_beyond_the_limit_are_counted() -> None:
    text = table({"n": list(range(1000))}, [[1.0] * 1000], rows=2)
    assert text.splitlines()[2:] == [" 0 ± 1", " 1 ± 1", "(1000 rows; the first 2 shown)"]


def test_an_explanation_is_text() -> None:
    answer = Answer(pa.table({"explain": ["Release", "  Scan\x1b[2J"]}))
    assert render.table(answer) == "Release\n  Scan\\x1b[2J"


WIDE = {"a": ["a rather long text in a cell"], "b": ["another rather long text"], "total": [123456]}


def test_a_narrow_terminal_shortens_texts_first() -> None:
    assert table(WIDE, [None, None, [9.0]], width=50).splitlines() == [
        " a                │ b               │       total",
        "──────────────────┼─────────────────┼─────────────",
        " a rather long t… │ another rather… │ 123,456 ± 9",
        "(1 row)",
    ]


def test_a_very_narrow_terminal_gets_records() -> None:
    assert table(WIDE, [None, None, [9.0]], width=40).splitlines() == [
        "── row 1 ──",
        " a     │ a rather long text in a cell",
        " b     │ another rather long text",
        " total │ 123,456 ± 9",
        "(1 row)",
    ]


@given(st.integers(20, 120), st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_a_grid_fits_its_width(width: int, texts: list[str]) -> None:
    columns: dict[str, Any] = {f"c{i}": [text] for i, text in enumerate(texts)}
    lines = table(columns | {"n": [123456]}, width=width).splitlines()
    if not lines[0].startswith("──"):
        assert max(cells.cells_wide(line) for line in lines[:-1]) <= width


def test_ascii_for_terminals_without_the_signs() -> None:
    answer = Answer(pa.table({"g": ["a"], "n": [12]}), [None, [float("inf")]], receipt())
    assert render.table(answer, signs=cells.ASCII).splitlines() == [
        " g |         n",
        "---+-----------",
        " a | 12 +- inf",
        "(1 row)",
    ]
    footer = render.footer(answer, THREE, signs=cells.ASCII)
    assert footer == "cost eps = 0.25 ; left eps = 2.75 of 3 ; +- is the half-width of the 95 % interval"
    assert render.signs_for(io.TextIOWrapper(io.BytesIO(), encoding="latin-1")) is cells.ASCII
    assert render.signs_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) is cells.UNICODE


# --------------------------------------------------------------------------------------------------- terminals


HOSTILE = "\x1b]0;title\x07\x9b2J\r\n\u202eevil\u200b\u2028\ufeff\ud7ff\U000e0001"


def test_control_characters_are_written_out() -> None:
    written = "\\x1b]0;title\\x07\\x9b2J\\r\\n\\u202eevil\\u200b\\u2028\\ufeff\\ud7ff\\U000e0001"
    assert visible(HOSTILE) == written
    assert written in table({"t": [HOSTILE]})
    assert table({HOSTILE: [1]}).startswith(f" {written}\n")


@given(st.text())
def test_nothing_shown_steers_a_terminal(text: str) -> None:
    answer = Answer(pa.table({text: [text], "n": [1]}), [None, [1.0]], receipt())
    for shown in (render.table(answer), render.table(answer, width=30), markup.markdown(answer)):
        assert all(c.isprintable() or c in "\n\u00a0\u3000" for c in shown)


# -------------------------------------------------------------------------------------------------------- footers


def footer(*, names: tuple[str, ...] = ("n",), half_widths: Any = ([14.0],), **more: Any) -> str:
    columns: dict[str, Any] = {name: [1] for name in names}
    return render.footer(Answer(pa.table(columns), half_widths, receipt(**more)), THREE)


def test_the_footer_of_a_charged_result() -> None:
    assert footer() == "cost ε = 0.25 · left ε = 2.75 of 3 · ± is the half-width of the 95 % interval"


def test_the_footer_of_a_free_result() -> None:
    assert footer(epsilon=Fraction(0)) == "free · left ε = 3 of 3 · ± is the half-width of the 95 % interval"
    assert footer(epsilon=Fraction(0), half_widths=()) == "free · left ε = 3 of 3"
    assert render.footer(Answer(pa.table({"a": [1]})), THREE) == "free"


def test_the_footer_names_noise_that_no_column_shows() -> None:
    columns = (
        ColumnReceipt("n", "discrete Laplace", QUARTER, 4.0, 14.0),
        ColumnReceipt("SUM(sales_value)", "discrete Laplace", QUARTER, 900.0, 12345.6),
    )
    assert footer(columns=columns) == (
        "cost ε = 0.25 · left ε = 2.75 of 3 · from SUM(sales_value) ± 13,000 · ± is the half-width of the 95 % interval"
    )


def test_the_footer_names_what_limits_leave_out() -> None:
    assert footer(limits=("counts at most 3 rows of each house\x1bhold", "leaves out small groups")) == (
        "cost ε = 0.25 · left ε = 2.75 of 3 · counts at most 3 rows of each house\\x1bhold · leaves out small groups"
        " · ± is the half-width of the 95 % interval, without what that leaves out"
    )


def test_the_footer_with_a_delta() -> None:
    answer = Answer(pa.table({"n": [1]}), (), Receipt(QUARTER, Fraction(1, 10**7), THREE, Fraction(9, 10**7)))
    assert render.footer(answer, THREE) == "cost ε = 0.25, δ = 1e-7 · left ε = 3 of 3, δ = 9e-7"


def test_the_footer_wraps_between_its_parts() -> None:
    answer = Answer(pa.table({"n": [1]}), [[14.0]], receipt())
    assert render.footer(answer, THREE, width=40).splitlines() == [
        "cost ε = 0.25 · left ε = 2.75 of 3",
        "± is the half-width of the 95 % interval",
    ]


def test_a_balance() -> None:
    third = Fraction(1, 3)
    pure = Balance(THREE, Fraction(0), third, Fraction(0), THREE - third, Fraction(0), 1)
    assert render.balance("shop", pure) == "account shop\nε: 0.333334 spent, 2.66666 left of 3"
    delta = Fraction(1, 10**6)
    approximate = Balance(THREE, delta, third, delta, THREE - third, Fraction(0), 1)
    assert render.balance("shop", approximate).splitlines()[2] == "δ: 1e-6 spent, 0 left of 1e-6"


# ------------------------------------------------------------------------------------------------------- markdown


def test_markdown() -> None:
    answer = Answer(pa.table({"a|b": ["x|y\n", None], "n": [12345, 7]}), [None, [14.0, 3.0]], receipt())
    assert markup.markdown(answer).splitlines() == [
        "| a\\|b | n |",
        "| --- | ---: |",
        "| x\\|y\\\\n | 12,345 ± 14 |",
        "| NULL | 7 ± 3 |",
    ]
    assert markup.markdown(Answer(pa.table({}))) == ""


def test_other_types() -> None:
    columns = {
        "b": pa.array([b"\x00\xff"]),
        "l": [[1, 2]],
        "d": [date(2024, 2, 29)],
        "k": pa.array(["a"]).dictionary_encode(),
    }
    assert table(columns).splitlines()[2] == " \\x00ff │ [1, 2] │ 2024-02-29 │ a"
