"""Answers about policy, settings and budget: SHOW, DESCRIBE, SET, and the words to complete. All are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dpsql.answer import Answer
from dpsql.compile import statement as statements
from dpsql.compile.functions import NAMES
from dpsql.compile.limits import MECHANISMS, STRATEGIES
from dpsql.errors import Error, Span, listed, nearest, refusal
from dpsql.ledger import Balance, Paid, renewal, shown
from dpsql.policy.facts import PublicFacts
from dpsql.policy.model import Path, Policy, Table
from dpsql.policy.vocabulary import TableWords, words_of
from dpsql.privacy.accounting import GAUSSIAN, show_amount
from dpsql.settings import Settings


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names to complete: of the policy and the language, never of data. settings: with the words they take, if any."""

    tables: Mapping[str, TableWords]
    functions: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]


AGGREGATES = (
    *("COUNT", "COUNT_IF", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"),
    *("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_COUNT"),
    *("REGR_AVGX", "REGR_AVGY"),
)


def of_command(
    command: statements.Statement,
    policy: Policy,
    settings: Settings,
    facts: PublicFacts,
    balance: Callable[[], Balance],
) -> Answer:
    """The answer to SET, RESET, SHOW and DESCRIBE: from the policy, the settings and the ledger. Raises DP103."""
    match command:
        case statements.Set(name=name, value=value, name_span=name_span, value_span=value_span):
            with _at(value_span if name in settings else name_span):
                settings.set(name, value)
            return nothing()
        case statements.Reset(name=name, span=span):
            with _at(span):
                settings.reset(name)
            return nothing()
        case statements.Show(what="budget"):
            return of_budget(policy, balance())
        case statements.Show(what="settings"):
            return of_settings(settings)
        case statements.Show():
            return of_tables(policy)
        case statements.Describe(table=table, span=span):
            with _at(span):
                return of_columns(policy, facts, table)
    raise refusal("DP103", "this is not a statement that dpsql answers")


@contextmanager
def _at(span: Span | None) -> Iterator[None]:
    """Errors of what a command asks for point at it."""
    try:
        yield
    except Error as error:
        error.span = error.span or span
        raise


def vocabulary(policy: Policy, facts: PublicFacts, settings: Settings) -> Vocabulary:
    """What a front end may offer while somebody types."""
    words = {"strategy": STRATEGIES, "mechanism": MECHANISMS}
    takes = {name: tuple(words.get(name, ())) for name in settings}
    return Vocabulary(words_of(policy, facts), AGGREGATES + tuple(sorted(NAMES)), takes)


def of_lines(column: str, text: str) -> Answer:
    """A text, one row per line."""
    return Answer(pa.table({column: pa.array(text.splitlines(), pa.string())}))


def nothing() -> Answer:
    """What SET and RESET return: no columns, no rows."""
    return Answer(pa.table({}))


def of_settings(settings: Settings) -> Answer:
    """SHOW SETTINGS."""
    rows = settings.shown()
    return Answer(pa.table({"setting": list(rows), "value": [str(v) for v in rows.values()]}))


def of_budget(policy: Policy, balance: Balance) -> Answer:
    """SHOW BUDGET: of the purse that one spends from, in the present window. more_like_last: how many statements at the
    price of the last one fit; NULL before the first."""
    amounts = [
        ("epsilon", balance.epsilon, balance.spent_epsilon, balance.remaining_epsilon),
        ("delta", balance.delta, balance.spent_delta, balance.remaining_delta),
    ]
    if balance.composition == GAUSSIAN:
        amounts.append(("mu^2", balance.mu_squared, balance.spent_mu_squared, balance.remaining_mu_squared))
    whose = {"account": policy.budget.account, **({"analyst": balance.analyst} if balance.analyst else {})}
    rows = {
        **{column: pa.array([name] * len(amounts)) for column, name in whose.items()},
        "amount": [name for name, *_ in amounts],
        "total": [show_amount(total) for _, total, _, _ in amounts],
        "spent": [show_amount(spent) for _, _, spent, _ in amounts],
        "left": [_left(left) for *_, left in amounts],
        "renews": [renewal(balance)] * len(amounts),
        "more_like_last": pa.array([_counted(balance.more_like_last)] * len(amounts), pa.int64()),
    }
    return Answer(pa.table(rows))


ON_RESULTS, ON_ROWS = "\n-- on noisy results:\n", "\n-- on private rows:\n"


def as_charged(asked: str, outer: str, inner: Iterable[str]) -> str:
    """How the ledger records a statement: as it was asked, and what ran. The last is what was released."""
    return asked.strip() + ON_RESULTS + outer + "".join(ON_ROWS + sql for sql in inner)


def of_paid(paid: Iterable[Paid]) -> Answer:
    """What one's purse was charged for, the last one first."""
    rows = list(paid)
    columns = {
        "charged_at": [shown(each.at) for each in rows],
        "epsilon": [show_amount(each.price.epsilon) for each in rows],
        "delta": [show_amount(each.price.delta) for each in rows],
        "state": [each.state for each in rows],
        "statement": [" ".join(each.statement.partition(ON_RESULTS)[0].split()) for each in rows],
    }
    return Answer(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}))


def _counted(number: int | None) -> int | None:
    """As BIGINT holds it: amounts can be small beyond reason."""
    return None if number is None else min(number, 2**63 - 1)


def _left(amount: Fraction) -> str:
    """What is left, never more than it is: where no short decimal is exact, one rounded down, after a "≥"."""
    rounded_up = show_amount(-amount)
    return f"≥{rounded_up[2:]}" if rounded_up.startswith("≤") else show_amount(amount)


def of_tables(policy: Policy) -> Answer:
    """SHOW TABLES: what the policy makes visible."""
    tables = policy.tables.values()
    rows = {
        "table": [t.name for t in tables],
        "kind": ["public" if t.public else f"private, per {policy.unit}" for t in tables],
        "unit": [_unit(t) for t in tables],
        "rows_per_unit": pa.array([t.max_rows_per_unit for t in tables], pa.int64()),
        "columns": [", ".join(t.visible_columns) for t in tables],
    }
    return Answer(pa.table(rows))


def of_columns(policy: Policy, facts: PublicFacts, name: str) -> Answer:
    """DESCRIBE t: the columns as the policy describes them."""
    table = policy.table(name)
    if table is None:
        hint = nearest(name, policy.tables)
        repair = f"the tables are: {listed(sorted(policy.tables))}"
        raise refusal("DP110", f'no table "{name}" is visible here{hint}', repair=repair)
    columns = table.columns.values()
    references = {r.columns[0]: f"{r.table}.{r.target[0]}" for r in table.references if len(r.columns) == 1}
    types = facts.tables[table.name].types
    rows = {
        "column": [c.name for c in columns],
        "type": [str(types[c.name]) for c in columns],
        "lowest": pa.array([str(c.bounds[0]) if c.bounds else None for c in columns], pa.string()),
        "highest": pa.array([str(c.bounds[1]) if c.bounds else None for c in columns], pa.string()),
        "keys": pa.array([_keys(c.values, references.get(c.name)) for c in columns], pa.string()),
        "unit_of_measure": pa.array([c.unit_of_measure or None for c in columns], pa.string()),
        "description": pa.array([c.description or None for c in columns], pa.string()),
    }
    return Answer(pa.table(rows))


def _unit(table: Table) -> str | None:
    match table.unit:
        case None:
            return None
        case Path(via=via, to=to):
            return f"{', '.join(via)} -> {to}"
        case _:
            return "every row" if table.every_row_is_a_unit else table.unit


def _keys(values: tuple[object, ...] | None, reference: str | None) -> str | None:
    if values is None:
        return reference
    shown = ", ".join(str(v) for v in values[:5])
    return shown if len(values) <= 5 else f"{shown}, ... ({len(values)})"
