"""The backslash commands: what each is called, takes, offers for completion and does.

They speak to a `Desk`: the session, the screen and the preferences of one interactive session. All are free but `\\i`,
which runs statements.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from dpsql.errors import CODES, nearest, refusal
from dpsql.front import chart, costs, describe, render
from dpsql.front.config import PREFERENCES, Preferences
from dpsql.front.diagnostics import guarded, visible
from dpsql.front.helptext import KEYS, SQL, help_text, listed
from dpsql.front.pages import page_of

if TYPE_CHECKING:
    from dpsql.front.opening import Opening
    from dpsql.front.screen import Screen


class Desk(Protocol):
    """What the commands work with."""

    opening: Opening
    screen: Screen
    preferences: Preferences
    last_code: str

    def run(self, text: str, name: str = "", *, echo: bool = False) -> None:
        """Run the statements of a text and show what they answer."""

    def include(self, path: str) -> None:
        """Run the statements of a file."""

    def edit(self) -> None:
        """Let the editor change the last statement."""


_NARROW = 80
"""Columns of a screen below which columns of a table are listed one below the other."""

Act = Callable[[Desk, str], None]
Offer = Callable[[Desk], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """takes: how its argument is written, in brackets where it may be left out. offers: words for its argument; FILES
    for names of files. group: its heading in the help."""

    takes: str
    meaning: str
    group: str
    act: Act
    offers: Offer | None = None


def FILES(_: Desk) -> Iterable[str]:  # noqa: N802 - a mark, and no words
    """Stands for the names of files."""
    return ()


# -- looking around ---------------------------------------------------------------------------------------------------


def _describe(desk: Desk, name: str) -> None:
    if not name:
        _tables(desk, "")
        return
    described = guarded(partial(desk.opening.session.execute, f"DESCRIBE {name};"))
    table = desk.opening.policy.table(name.strip('"'))
    if table is None:  # a name that only SQL reads, such as "a"."b"
        desk.screen.report(described)
        return
    desk.screen.say(
        _wrapped(f"{visible(table.name)}: {visible(describe.limits(table, desk.opening.policy.unit))}", desk)
    )
    words, columns = desk.opening.tables()[table.name], _columns(desk)
    if columns < _NARROW:
        desk.screen.say(listed(describe.entries(described, words), columns))
    else:
        desk.screen.report(describe.columns(described, words))


def _tables(desk: Desk, _: str) -> None:
    policy = desk.opening.policy
    entries = [
        (visible(table.name), visible(f"{describe.limits(table, policy.unit)}: {', '.join(table.visible_columns)}"))
        for table in policy.tables.values()
    ]
    desk.screen.say(listed(entries, _columns(desk)))


def _policy(desk: Desk, _: str) -> None:
    lines = describe.promises(desk.opening.policy, desk.screen.signs)
    desk.screen.say("\n".join(_wrapped(line, desk) for line in lines))


def _budget(desk: Desk, _: str) -> None:
    account = desk.opening.policy.budget.account
    desk.screen.say(render.balance(account, desk.opening.budget(), desk.screen.signs))


def _releases(desk: Desk, most: str) -> None:
    if most and not (most.isdecimal() and 0 < int(most) <= 10_000):
        raise refusal("DP120", f'"{most}" is not a number of statements', repair="\\releases 20")
    rows = guarded(partial(desk.opening.session.paid, int(most or 20))).table.to_pylist()
    if not rows:
        desk.screen.say("nothing was charged so far")
        return
    desk.screen.say(listed([describe.charged(row, desk.screen.signs) for row in rows], _columns(desk)))


def _why(desk: Desk, code: str) -> None:
    if not code and not desk.last_code:
        raise refusal("DP120", "no statement was refused so far", repair="\\why DP205")
    width, code_lines = desk.screen.width, False
    lines = []
    for line in page_of(code or desk.last_code).splitlines():
        code_lines ^= line.startswith("```")
        lines.append(line if code_lines or width is None else textwrap.fill(line, max(width - 1, 20)))
    desk.screen.say("\n".join(lines))


# -- asking -----------------------------------------------------------------------------------------------------------


def _cost(desk: Desk, sql: str) -> None:
    session, signs = desk.opening.session, desk.screen.signs
    for statement in guarded(partial(session.statements, _given(sql, "\\cost SELECT ...;"))):
        found = guarded(partial(session.estimate, statement))
        left = desk.opening.budget()
        lines = [costs.would_cost(found.quote.charged, left, signs)]
        if found.quote.spared:
            lines.append(f"paid for already: {costs.priced(found.quote.spared, signs)}")
        for column in found.columns:
            error = "depends on the noise" if column.half_width is None else costs.half_width(column.half_width, signs)
            lines.append(f"  {visible(column.name)}: {error}")
        desk.screen.say("\n".join(lines))


def _explain(desk: Desk, sql: str) -> None:
    session = desk.opening.session
    for statement in guarded(partial(session.statements, _given(sql, "\\explain SELECT ...;"))):
        text = guarded(partial(session.explain, statement))
        desk.screen.say(visible(text.rstrip("\n"), keep="\n"))


def _include(desk: Desk, path: str) -> None:
    desk.include(_given(path, "\\i FILE"))


def _edit(desk: Desk, _: str) -> None:
    desk.edit()


# -- showing ----------------------------------------------------------------------------------------------------------


def _output(desk: Desk, path: str) -> None:
    desk.screen.redirect(path or None)
    desk.screen.note(f"results go to {visible(path)}; \\o shows them here again" if path else "results are shown here")


def _chart(desk: Desk, argument: str) -> None:
    if argument.lower() in ("on", "off"):
        _prefer("chart", desk, argument)
        return
    if desk.screen.last is None:
        raise refusal(
            "DP002", "there is no result to draw", repair="ask for one: SELECT ... GROUP BY ...; then \\chart"
        )
    drawn = chart.chart(desk.screen.last, signs=desk.screen.signs, width=desk.screen.width, column=argument.strip('"'))
    desk.screen.say(drawn)


def _prefer(name: str, desk: Desk, value: str) -> None:
    """Change a preference for this session, or say what it is."""
    if value:
        desk.preferences.change(name, value.lower())
    desk.screen.note(f"{name} is {desk.preferences[name]}")


def _expand(desk: Desk, value: str) -> None:
    _prefer("expanded", desk, value or ("off" if desk.preferences["expanded"] == "on" else "on"))


def _set(desk: Desk, argument: str) -> None:
    name, _, value = (word.strip() for word in argument.replace("=", " ", 1).partition(" "))
    if name and value:
        desk.preferences.keep(name, value.strip("'\"").lower())
        desk.screen.note(f"{name.lower()} is {desk.preferences[name.lower()]}, and stays so")
        return
    if name.lower() in desk.opening.session.settings:
        raise refusal(
            "DP120", f"{name} is a setting of statements", repair=f"SET {name} = ...; SHOW SETTINGS shows all"
        )
    shown = [name.lower()] if name else list(desk.preferences)
    for each in shown:
        if each not in PREFERENCES:
            desk.preferences.change(each, "")  # says so, with the nearest
    wide = max(map(len, shown))
    entries = [
        (f"{each:<{wide}} = {desk.preferences[each]}", f"{PREFERENCES[each].meaning} ({PREFERENCES[each].allowed})")
        for each in shown
    ]
    desk.screen.say(listed(entries, _columns(desk)))
    file = desk.preferences.file
    if not name and file is not None:
        desk.screen.say(f"\\set NAME VALUE changes one, and keeps it in {visible(str(file))}")


# -- help -------------------------------------------------------------------------------------------------------------


def _help(desk: Desk, topic: str) -> None:
    if topic:
        name, command = found(topic.removeprefix("\\"))
        desk.screen.say(f"\\{name} {command.takes}".rstrip() + f"\n  {command.meaning}")
        return
    desk.screen.say(all_help(_columns(desk)))


def all_help(columns: int) -> str:
    """What `\\?` says, within so many columns."""
    usages = {f"\\{name} {command.takes}".rstrip(): command for name, command in COMMANDS.items()}
    sections = [(group, [(u, c.meaning) for u, c in usages.items() if c.group == group]) for group in GROUPS]
    return help_text([*sections, ("SQL", SQL), ("Keys", KEYS)], columns)


def _quit(_: Desk, __: str) -> None:
    raise EOFError


# -- all of them ------------------------------------------------------------------------------------------------------


def _given(argument: str, usage: str) -> str:
    if not argument.strip(" ;"):
        raise refusal("DP120", "something is missing", repair=usage)
    return argument


def _wrapped(text: str, desk: Desk) -> str:
    width = desk.screen.width
    return text if width is None else textwrap.fill(text, max(width - 1, 20), subsequent_indent="  ")


def _columns(desk: Desk) -> int:
    return desk.screen.width or 100


def _table_names(desk: Desk) -> Iterable[str]:
    return desk.opening.policy.tables


def _preference_words(name: str) -> Offer:
    return lambda _: PREFERENCES[name].words


LOOK, ASK, SHOW, REST = GROUPS = ("Look around", "Ask", "Show results", "The session")

COMMANDS: Mapping[str, Command] = {
    "d": Command(
        "[TABLE]",
        "the tables, or the columns of one: what can be grouped, and within which bounds",
        LOOK,
        _describe,
        _table_names,
    ),
    "dt": Command("", "the tables", LOOK, _tables),
    "policy": Command("", "whom the policy protects, what may be spent, and the limits of each table", LOOK, _policy),
    "budget": Command("", "what is spent and left", LOOK, _budget),
    "releases": Command(
        "[N]", "the last statements that were charged: when, how much (asked again, they are free)", LOOK, _releases
    ),
    "why": Command(
        "[CODE]", "what an error means and what to write; without a code, the last one", LOOK, _why, lambda _: CODES
    ),
    "cost": Command("SQL;", "what a statement would cost, and how exact it would be: free", ASK, _cost),
    "explain": Command("SQL;", "how a statement would be answered, with both SQLs: free", ASK, _explain),
    "e": Command("", "change the last statement in $VISUAL or $EDITOR", ASK, _edit),
    "i": Command("FILE", "run a file of statements", ASK, _include, FILES),
    "x": Command("[on|off|auto]", "one line for each column", SHOW, _expand, _preference_words("expanded")),
    "format": Command(
        "[NAME]",
        "how results are written: table, csv, json ...",
        SHOW,
        partial(_prefer, "format"),
        _preference_words("format"),
    ),
    "chart": Command(
        "[COLUMN|on|off]",
        "bars with error bars, of the last result; on: under every grouped one",
        SHOW,
        _chart,
        _preference_words("chart"),
    ),
    "o": Command("[FILE]", "results go to a file; without one, here again", SHOW, _output, FILES),
    "set": Command("[NAME [VALUE]]", "preferences, kept for later sessions", REST, _set, lambda _: PREFERENCES),
    "?": Command("[COMMAND]", "this help", REST, _help, lambda _: COMMANDS),
    "q": Command("", "quit", REST, _quit),
}

_ALSO = {"help": "?", "quit": "q", "edit": "e", "tables": "dt", "h": "?", "l": "dt"}

LONG = ("cost", "explain")
"""Commands whose argument is a statement, which may take several lines."""


def found(name: str) -> tuple[str, Command]:
    """A command by its name. Raises DP120, with the nearest."""
    known = _ALSO.get(name, name)
    if known not in COMMANDS:
        hint = nearest(name, [*COMMANDS, *_ALSO]).replace('"', "", 1).replace('"', "")
        hint = hint.replace("mean ", "mean \\")
        raise refusal("DP120", f"no command \\{visible(name)}{hint}", repair="\\? shows all")
    return known, COMMANDS[known]


def words_after(desk: Desk, typed: str) -> Iterable[str] | None:
    """What goes on from a command typed so far; None where it is the name of a file."""
    name, space, argument = typed.removeprefix("\\").partition(" ")
    if not space:
        return [f"\\{each}" for each in COMMANDS]
    command = COMMANDS.get(_ALSO.get(name, name))
    if command is None or command.offers is None:
        return ()
    if command.offers is FILES:
        return None
    if name == "set" and " " in argument:
        preference = PREFERENCES.get(argument.split()[0])
        return preference.words if preference is not None else ()
    return command.offers(desk) if " " not in argument else ()
