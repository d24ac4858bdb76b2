"""`dpsql help` and `dpsql completion`: what the parsers of all commands know, for people and for shells.

The completion scripts are made from the argparse trees, so that they can't fall behind the options; they start no
Python while somebody types. They complete commands, options and their choices, and files; nothing of a policy.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.front.arguments import parser_of
from dpsql.front.diagnostics import OK, Usage

SHELLS = ("bash", "zsh", "fish")


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of every command, by its words; that of `dpsql` alone is ""."""
    from dpsql.front import budgets, cli, ledgers, owners, runs

    return {
        "": cli.main_parser(),
        "run": runs.run_parser(),
        "explain": runs.explain_parser(),
        "budget": budgets.budget_parser(),
        "budget what-if": budgets.what_if_parser(),
        "budget open": budgets.open_parser(),
        "budget reopen": budgets.reopen_parser(),
        "prepare": owners.prepare_parser(),
        "init": owners.init_parser(),
        "check": owners.check_parser(),
        "ledger": ledgers.ledger_parser(),
        "ledger verify": ledgers.verify_parser(),
        "ledger export": ledgers.export_parser(),
        "ledger adopt": ledgers.adopt_parser(),
        "audit": owners.audit_parser(),
        "why": owners.why_parser(),
        "completion": completion_parser(),
        "help": help_parser(),
    }


def help_parser() -> argparse.ArgumentParser:
    parser = parser_of("help", "Show the help of a command.", "help", "help run", "help budget what-if")
    parser.add_argument("command", nargs="*", metavar="COMMAND")
    return parser


def help(arguments: list[str]) -> int:  # noqa: A001 - the command's name
    """The command with these arguments; its exit code."""
    words = " ".join(help_parser().parse_args(arguments).command)
    found = parsers()
    if words not in found:
        from dpsql.errors import nearest

        raise Usage(f"no command {words}{nearest(words, [name for name in found if name])}")
    print(found[words].format_help(), end="")
    return OK


def completion_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "completion",
        "Write a script that completes dpsql's commands, options and files in a shell. Nothing is read while you type.",
        "completion bash > ~/.local/share/bash-completion/completions/dpsql",
        "completion zsh >> ~/.zshrc",
        "completion fish > ~/.config/fish/completions/dpsql.fish",
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser


def completion(arguments: list[str]) -> int:
    """The command with these arguments; its exit code."""
    shell = completion_parser().parse_args(arguments).shell
    known = [_known(name, parser) for name, parser in parsers().items()]
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known), end="")
    return OK


@dataclass(frozen=True, slots=True)
class _Known:
    """What can follow a command. options: each with its choices, empty where it takes none of a list; words: that can
    stand in a place of its own."""

    name: str
    about: str
    options: dict[str, tuple[str, ...]]
    helps: dict[str, str]
    words: tuple[str, ...]


def _known(name: str, parser: argparse.ArgumentParser) -> _Known:
    options, helps, words = {}, {}, list[str]()
    for action in parser._actions:  # argparse has no public way to list them
        choices = tuple(map(str, action.choices or ()))
        for option in action.option_strings:
            options[option] = choices
            helps[option] = (action.help or "").partition(";")[0].replace("%%", "%")
        if not action.option_strings:
            words += choices
    about = " ".join((parser.description or "").split()).partition(". ")[0].removesuffix(".")
    return _Known(name, about, options, helps, tuple(words))


def _following(known: list[_Known], name: str) -> list[str]:
    """The words that can follow a command's: of commands below it, and of its own; each once."""
    below = [each.name.rpartition(" ") for each in known if each.name]
    own = [word for each in known if each.name == name for word in each.words]
    return list(dict.fromkeys([*(word for above, _, word in below if above == name), *own]))


def _names(known: list[_Known]) -> str:
    """Those of all commands, the words of each quoted as one."""
    return " ".join(shlex.quote(each.name) for each in known if each.name)


def _choices(known: list[_Known]) -> dict[str, str]:
    """What can follow an option, of those that take one of some words."""
    return {option: " ".join(words) for each in known for option, words in each.options.items() if words}


def _bash(known: list[_Known]) -> str:
    after = [
        f'    {option}) COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$cur")); return;;'
        for option, words in _choices(known).items()
    ]
    cases = [
        f"    {shlex.quote(each.name)}) options={shlex.quote(' '.join(each.options))};"
        f" words={shlex.quote(' '.join(_following(known, each.name)))};;"
        for each in known
    ]
    return "\n".join(
        [
            "_dpsql() {",
            "  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= options words known",
            f"  for known in {_names(known)}; do",
            '    case "${COMP_WORDS[*]:1:COMP_CWORD-1} " in "$known "*) command=$known;; esac',
            "  done",
            "  case $before in",
            *after,
            "  esac",
            "  case $command in",
            *cases,
            "  esac",
            '  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))',
            '  elif [[ ${COMP_WORDS[*]:1:COMP_CWORD-1} == "$command" ]]; then',
            '    COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "  else COMPREPLY=(); fi",
            "}",
            "complete -o default -F _dpsql dpsql",
            "",
        ]
    )


def _zsh(known: list[_Known]) -> str:
    """Where no word fits, files do: `compadd` fails then."""
    after = [f"    {option}) compadd -- {words} && return;;" for option, words in _choices(known).items()]
    cases = [
        f"    {shlex.quote(each.name)}) options=({' '.join(each.options)});"
        f" following=({' '.join(_following(known, each.name))});;"
        for each in known
    ]
    return "\n".join(
        [
            "#compdef dpsql",
            "_dpsql() {",
            '  local said="${words[2,CURRENT-1]}" command= known',
            "  local -a options following",
            f"  for known in {_names(known)}; do",
            '    [[ "$said " == "$known "* ]] && command=$known',
            "  done",
            '  case "$words[CURRENT-1]" in',
            *after,
            "  esac",
            "  case $command in",
            *cases,
            "  esac",
            '  if [[ "$words[CURRENT]" == -* ]]; then compadd -- $options',
            '  elif [[ "$said" == "$command" ]] && compadd -- $following; then return',
            "  else _files; fi",
            "}",
            "(( $+functions[compdef] )) || { autoload -U compinit && compinit; }",
            "compdef _dpsql dpsql",
            "",
        ]
    )


def _fish(known: list[_Known]) -> str:
    lines = []
    for each in known:
        here = (
            " and ".join(f"__fish_seen_subcommand_from {word}" for word in each.name.split()) or "__fish_use_subcommand"
        )
        when = f"complete -c dpsql -n {shlex.quote(here.replace(' and ', '; and '))}"
        below = {
            other.name.rpartition(" ")[2]: other.about
            for other in known
            if other.name and other.name.rpartition(" ")[0] == each.name
        }
        lines += [f"{when} -a {word} -d {shlex.quote(about)}" for word, about in below.items()]
        lines += [f"{when} -a {word}" for word in each.words if word not in below]
        for option, choices in each.options.items():
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            of = f" -x -a {shlex.quote(' '.join(choices))}" if choices else ""
            lines.append(f"{when} {kind}{of} -d {shlex.quote(each.helps[option])}")
    return "\n".join(lines) + "\n"
