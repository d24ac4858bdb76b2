"""`\\d`, `\\policy` and `\\releases`: what the policy promises and what was asked, for people who write the next
statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dpsql.front.cells import Signs
from dpsql.front.diagnostics import visible
from dpsql.front.numerals import amount

if TYPE_CHECKING:
    from dpsql.answer import Answer
    from dpsql.policy.model import Policy, Table
    from dpsql.policy.vocabulary import TableWords


def columns(described: Answer, words: TableWords) -> Answer:
    """What DESCRIBE answers, in fewer and narrower columns, with what each can be used for."""
    import pyarrow as pa

    from dpsql.answer import Answer

    rows = _rows(described, words)
    names = ("column", "type", "use", "values", "description")
    found = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return Answer(pa.table({name: pa.array(texts, pa.string()) for name, texts in found.items() if any(texts)}))


def entries(described: Answer, words: TableWords) -> list[tuple[str, str]]:
    """The same as names and what there is to say of each."""
    return [(visible(name), visible("; ".join(filter(None, said)))) for name, *said in _rows(described, words)]


def _rows(described: Answer, words: TableWords) -> list[tuple[str, str, str, str, str]]:
    return [
        (row["column"], row["type"], ", ".join(_uses(row["column"], words)), _values(row), row["description"] or "")
        for row in described.table.to_pylist()
    ]


def _uses(column: str, words: TableWords) -> Iterator[str]:
    if column in words.units:
        yield "unit"
    if column in words.groups:
        yield "group"
    if column in words.sums:
        yield "sum"


def _values(row: Mapping[str, str | None]) -> str:
    """The keys, or the bounds with their unit of measure."""
    if row["keys"] is not None:
        return row["keys"]
    bounds = "" if row["lowest"] is None else f"{row['lowest']} to {row['highest']}"
    return f"{bounds} {row['unit_of_measure'] or ''}".strip()


def charged(row: Mapping[str, str], signs: Signs) -> tuple[str, str]:
    """A charge: when and how much, and the statement with what became of it."""
    price = f"{signs.epsilon} {row['epsilon']}"
    price += f", {signs.delta} {row['delta']}" if row["delta"] != "0" else ""
    became = "" if row["state"] == "answered" else f" ({'failed' if row['state'] == 'failed' else 'not answered'})"
    return f"{row['charged_at']}  {price}", visible(row["statement"]) + became


def promises(policy: Policy, signs: Signs) -> list[str]:
    """Whom it protects, what may be spent, and the limits of each table: a sentence each."""
    budget = policy.budget
    lines = [
        f"account {budget.account} protects each {policy.unit}",
        f"{signs.epsilon} = {amount(budget.epsilon)} in all; a statement costs {amount(budget.per_query_epsilon)} "
        f"unless you SET epsilon, and {amount(budget.max_query_epsilon)} at most",
    ]
    if budget.delta:
        lines.append(
            f"{signs.delta} = {amount(budget.delta)}: groups that nobody listed may be shown where many are in"
        )
    else:
        lines.append(f"{signs.delta} = 0: groups are those that the policy or WHERE lists")
    if budget.composition != "basic":
        lines.append(f"charges add up by Gaussian composition, as {signs.mu_squared}")
    if budget.renew != "never":
        lines.append(f"the budget is renewed every {budget.renew}")
    if budget.joint_epsilon is not None:
        lines.append(f"each analyst has a budget; all together have {signs.epsilon} = {amount(budget.joint_epsilon)}")
    lines += [f"{table.name}: {limits(table, policy.unit)}" for table in policy.tables.values()]
    return [visible(line) for line in lines]


def limits(table: Table, unit: str) -> str:
    """How much of each unit counts."""
    if table.public:
        return "public, answered exactly and free"
    if table.every_row_is_a_unit:
        return f"every row is a {unit} of its own"
    counted = (
        (table.max_rows_per_unit, "row", "rows"),
        (table.max_groups_per_unit, "group", "groups"),
        (table.max_rows_per_group, "row of a group", "rows of a group"),
    )
    said = [f"{most:,} {one if most == 1 else many}" for most, one, many in counted if most is not None]
    return f"of each {unit} count at most {', '.join(said)}"
