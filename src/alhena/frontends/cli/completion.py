"""`alhena completion SHELL`: scripts that complete commands and flags in a shell."""

import io
import re
import shlex
from argparse import Action
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from functools import cache

from alhena.errors import UsageError
from alhena.frontends.main import COMMANDS, carry_out
from alhena.frontends.shared.arguments import EPILOG, run_parser
from alhena.frontends.shared.streams import write_stdout
from alhena.models.catalogue import ALIASES, conversing_models, today

USAGE = """\
usage: alhena completion bash|zsh|fish

Prints a script that completes commands, flags and their values. Load it in your shell:

  bash   source <(alhena completion bash)        in ~/.bashrc
  zsh    source <(alhena completion zsh)         in ~/.zshrc, after compinit
  fish   alhena completion fish | source         in ~/.config/fish/config.fish
"""
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def run(argv: list[str]) -> int:
    """Carries out `alhena completion ARGV`; returns the exit code."""
    if len(argv) != 1 or argv[0] not in COMMANDS["completion"]:
        raise UsageError(
            "`alhena completion` takes bash, zsh or fish.", remedy="See alhena completion --help."
        )
    write_stdout({"bash": _bash, "zsh": _zsh, "fish": _fish}[argv[0]]())
    return 0


def summaries() -> dict[str, str]:
    """The first line on each command in `alhena --help`."""
    found = re.findall(r"^  alhena (\w+)(?: \S+)?(?: +)(\S.*)$", EPILOG, re.MULTILINE)
    return {name: text.rstrip(";:,") for name, text in found}


@cache
def help_of(command: str) -> str:
    """The text of `alhena COMMAND --help`."""
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(written), suppress(SystemExit):  # argparse's own help
        carry_out(command, ["--help"])
    written.seek(0)
    return written.read()


def _words(command: str) -> list[str]:
    """The words that may follow a command: subcommands, then flags."""
    flags = dict.fromkeys(_FLAG.findall(help_of(command)))
    return [*COMMANDS[command], *flags, *(() if "--help" in flags else ("--help",))]


def _options() -> list[Action]:
    return [action for action in run_parser().actions if action.option_strings]


def _values() -> dict[tuple[str, ...], tuple[str, ...]]:
    """The words that may follow an option, for those where they are known."""
    models = (*(model.name for model in conversing_models(today())), *ALIASES, "demo")
    return {
        tuple(action.option_strings): tuple(action.choices or models)
        for action in _options()
        if action.choices or action.dest == "model"
    }


def _flags() -> list[str]:
    return [name for action in _options() for name in action.option_strings]


def _cases(values: Iterable[tuple[Iterable[str], Iterable[str]]], form: str) -> str:
    return "\n".join(form.format("|".join(names), " ".join(words)) for names, words in values)


_BASH = """\
# completion of alhena for bash: source <(alhena completion bash)
_alhena() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  case ${{COMP_WORDS[COMP_CWORD-1]}} in
{values}
    *)
      case ${{COMP_WORDS[1]}} in
{commands}
        *) words="{flags}" ;;
      esac
      [ "$COMP_CWORD" -eq 1 ] && words="{names} {flags}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _alhena alhena
"""


def _bash() -> str:
    return _BASH.format(
        values=_cases(_values().items(), '    {0}) words="{1}" ;;'),
        commands=_cases(
            (([name], _words(name)) for name in COMMANDS), '        {0}) words="{1}" ;;'
        ),
        flags=" ".join(_flags()),
        names=" ".join(COMMANDS),
    )


_ZSH = """\
#compdef alhena
# completion of alhena for zsh: source <(alhena completion zsh)
_alhena() {{
  local -a names flags
  names=({names})
  flags=({flags})
  case ${{words[CURRENT-1]}} in
{values}
  esac
  if (( CURRENT == 2 )); then
    _describe -t commands command names
    _describe -o flag flags
    return
  fi
  case ${{words[2]}} in
{commands}
    *) _describe -o flag flags ;;
  esac
  _files
}}
compdef _alhena alhena
"""


def _zsh() -> str:
    def describe(name: str, text: str) -> str:
        return shlex.quote(f"{name}:" + text.replace(":", "\\:"))

    flags = [
        describe(name, action.help or "") for action in _options() for name in action.option_strings
    ]
    texts = summaries()
    return _ZSH.format(
        names=" ".join(describe(name, texts[name]) for name in COMMANDS),
        flags=" ".join(flags),
        values=_cases(_values().items(), "    {0}) compadd -- {1}; return ;;"),
        commands=_cases(
            (([name], _words(name)) for name in COMMANDS), "    {0}) compadd -- {1} ;;"
        ),
    )


def _fish() -> str:
    lines = ["# completion of alhena for fish: alhena completion fish | source"]
    here = f"not __fish_seen_subcommand_from {' '.join(COMMANDS)}"
    texts = summaries()
    for name in COMMANDS:
        text = shlex.quote(texts[name])
        lines.append(f"complete -c alhena -n __fish_use_subcommand -a {name} -d {text}")
        seen = f"__fish_seen_subcommand_from {name}"
        words = " ".join(_words(name))
        lines.append(f"complete -c alhena -n '{seen}' -a '{words}'")
    values = _values()
    for action in _options():
        names = " ".join(
            f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}"
            for each in action.option_strings
        )
        known = values.get(tuple(action.option_strings))
        takes = f" -x -a '{' '.join(known)}'" if known else " -r" if action.nargs is None else ""
        text = shlex.quote(action.help or "")
        lines.append(f"complete -c alhena -n '{here}' {names}{takes} -d {text}")
    return "".join(f"{each}\n" for each in lines)
