"""Operands and scripts of single programs that decide whether a command only reads."""

import re
from collections.abc import Callable, Sequence

from alhena.shell.languages.builtins import refuse_bracket, refuse_printf, refuse_test
from alhena.shell.languages.git_reading import refuse_git
from alhena.shell.languages.sed_awk import known_variable, strange_awk, strange_sed
from alhena.shell.parse.model import Word
from alhena.shell.strict_reading import Given, could_begin_with, surely_operand
from alhena.shell.tables import (
    listed,
)

_JQ_AROUND = r"(?:(?<![.\w$])|\.\.)(?:env|import|include)\b|\$\s*(?:ENV|__prog)"
_JQ_WORDS = r"\b(?:env|ENV|import|include|__prog)"
_PS_LETTERS = frozenset("aAcdfghHjlLmnNrsSTuvwxXZ")
_PS_VALUE_LETTERS = frozenset("kOoptU")


def refuse_jq(given: Given) -> str | None:
    """A jq program reads and computes; what it says of the environment may be secret."""
    if given.has("-h", "--help", "-V", "--version"):
        return None
    if not given.operands:
        return "jq lacks its program"
    program = given.operands[0]
    if not program.literal:
        return f"{program.source} could be any program"
    if _jq_looks_around(program.text):
        return "the program shows the environment or reads modules"
    return None


def _jq_looks_around(program: str) -> bool:
    # A name right after a single dot is a field, after a dollar sign a variable; a comment may
    # stand between them.
    return re.search(_JQ_WORDS if "#" in program else _JQ_AROUND, program) is not None


def refuse_go_env(given: Given) -> str | None:
    """Addresses and flags among Go's settings may hold credentials."""
    return _refuse_others(given, "go_settings", "all settings of Go may show secrets; name one")


def refuse_printenv(given: Given) -> str | None:
    """Only variables of these names hold no secrets."""
    return _refuse_others(
        given, "plain_variables", "printenv shows the environment; name variables"
    )


def _refuse_others(given: Given, names: str, without: str) -> str | None:
    """The reason why operands may show secrets: one is not in the list, or there is none."""
    if not given.operands:
        return without
    for word in given.operands:
        if not word.literal or word.text not in listed(names):
            return f"{word.source or word.text} may hold a secret"
    return None


def refuse_ps(given: Given) -> str | None:
    """ps shows processes, but not their environments (`e` as a letter without a dash)."""
    for value in given.values("-o", "-O", "-k", "--format", "--sort"):
        if "env" in value.text or not value.literal:
            return f"{value.source or value.text} may show the environment of processes"
    for value in given.values("-g", "-G", "-p", "-s", "-t", "-u", "-U", "-C"):
        # `-auxe` is `auxe` to a ps that knows no user of the name `xe`.
        if value.source[:1] == "-" and value.text.strip("x,0123456789"):
            return f"{value.source} may show the environment of processes"
    takes_value = False
    for word in given.operands:
        letters = set(word.text)
        if takes_value:
            if "env" in word.text or not word.literal:
                return f"{word.source or word.text} may show the environment of processes"
            takes_value = False
        elif not word.literal or not (
            word.text.isdigit() or letters <= _PS_LETTERS | _PS_VALUE_LETTERS
        ):
            return f"{word.source or word.text} may show the environment of processes"
        else:
            takes_value = word.text[-1:] in _PS_VALUE_LETTERS
    return None


def refuse_rust(words: Sequence[Word]) -> str | None:
    """rustup runs in place of rustc and cargo, and runs the toolchain that a file in the folder
    names (even by its path), unless a toolchain is given."""
    texts = [word.text for word in words if word.literal]
    if len(texts) == len(words) == 2 and texts[1] in {"--version", "-V", "-vV"}:
        name, _, rest = texts[0].removeprefix("+").partition("-")
        number = name.replace(".", "")
        known = name in {"stable", "beta", "nightly"} or (number.isdecimal() and number.isascii())
        if texts[0][:1] == "+" and known and "/" not in rest:
            return None
    return "rustup runs what rust-toolchain.toml names; name a toolchain: rustc +stable --version"


def refuse_awk(given: Given) -> str | None:
    """The reason why an awk with these words may do more than print, as one clause, or None."""
    for value in given.values("-v"):
        name, _, _ = value.text.partition("=")
        if not known_variable(name):
            return f"{value.source or value.text} sets a variable that is not known"
    if not given.operands:
        return "awk lacks its program"
    program, files = given.operands[0], given.operands[1:]
    if not program.literal:
        return f"{program.source} could be any program"
    for file in files:
        if could_begin_with(file, "/inet"):
            return f"{file.source or file.text} could name a network connection"
    refused = strange_awk(program.text)
    return None if refused is None else f"{refused!r} is not known to only print in awk"


def refuse_sed(given: Given) -> str | None:
    """The reason why a sed with these words may do more than print, as one clause, or None."""
    scripts = given.values("-e", "--expression")
    if not scripts:
        if given.has("--help", "--version"):
            return None
        if not given.operands:
            return "sed lacks its script"
        scripts = given.operands[:1]
    for script in scripts:
        if not script.literal:
            return f"{script.source} could be any script"
        refused = strange_sed(script.text)
        if refused is not None:
            return f"{refused!r} is not known to only print in sed"
    return None


_TAR_LISTS = r"-?(?=[a-zJ]*t)[tvzjJ]{1,4}f"


def refuse_tar(words: Sequence[Word]) -> str | None:
    """`tar tf FILE`, `tar -tzvf FILE NAME…`: a name with a colon would be a host's."""
    if len(words) == 1 and words[0].literal and words[0].text == "--version":
        return None
    if not words or not words[0].literal or not re.fullmatch(_TAR_LISTS, words[0].text):
        return "tar may do more than list, unless its first word is like -tvf"
    if len(words) < 2 or not words[1].literal or ":" in words[1].text:
        return "the archive that tar lists may be another host's"
    option = next((word for word in words[1:] if not surely_operand(word)), None)
    return None if option is None else f"{option.source or option.text} could be an option"


LANGUAGES: dict[str, Callable[[Sequence[Word]], str | None]] = {
    "[": refuse_bracket,
    "cargo": refuse_rust,
    "printf": refuse_printf,
    "rustc": refuse_rust,
    "tar": refuse_tar,
    "test": refuse_test,
}
"""Programs whose words have a grammar of their own -> the function."""
CHECKS: dict[str, Callable[[Given], str | None]] = {
    "awk": refuse_awk,
    "jq": refuse_jq,
    "go-env": refuse_go_env,
    "printenv": refuse_printenv,
    "ps": refuse_ps,
    "sed": refuse_sed,
}
"""Values of `check` in a table -> the function."""
SUBCOMMANDS: dict[str, Callable[[str, Given], str | None]] = {"git": refuse_git}
"""Programs whose subcommands have something in common -> the function."""
FOLDERS_RUN = {"go": "go fetches and runs the toolchain that go.mod names"}
"""Programs that only read, but run what the working directory's files name."""
SCRIPTS = frozenset({"awk", "jq", "sed"})
"""Values of `check` of programs whose first operand is code."""
