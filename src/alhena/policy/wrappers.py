"""Programs and builtins that run what their arguments say."""

from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    "! { } [[ ]] if then elif else fi case esac for select while until do done in function time "
    "coproc"
)
"""Words that are grammar to bash where a command could stand."""

SHELLS = _words("bash sh dash ash zsh ksh mksh pdksh fish rbash tcsh csh")

EVALUATORS = _words("eval trap")
"""Builtins whose arguments are shell code."""

OPAQUE = _words("source . alias enable hash fc bind complete compgen shopt mapfile readarray")
"""Builtins after which a command word need not mean what it says."""

CODE_IN_DATA = _words(
    "[ let declare typeset local export readonly read unset set mapfile readarray getopts wait "
    "jobs compopt unalias builtin"
)
"""Builtins that can evaluate code hidden in data, or change what later words mean."""

CODE_WITH_OPTION = {"printf": ("-v",), "test": ("-v", "-R")}
"""Builtins that do so with these options only."""

VALUE_OPTIONS = {
    "builtin": "",
    "busybox": "",
    "command": "",
    "doas": "uC",
    "env": "uCS",
    "exec": "a",
    "fakeroot": "lfbis",
    "ionice": "cnpPu",
    "nice": "n",
    "nohup": "",
    "nsenter": "tSG",
    "parallel": "jISn",
    "setsid": "",
    "stdbuf": "ioe",
    "strace": "oepsuESPaXbI",
    "ltrace": "oepsulanx",
    "sudo": "ughpCrtTUDR",
    "systemd-run": "pEHMu",
    "time": "fo",
    "timeout": "sk",
    "toybox": "",
    "unshare": "SGR",
    "watch": "n",
    "xargs": "IEPndLsa",
    "chroot": "",
    "chrt": "TPD",
    "flock": "wEc",
    "taskset": "",
}
"""Wrapper -> its one-letter options that take a value. What follows them is a command."""

POSITIONALS = {"timeout": 1, "chroot": 1, "chrt": 1, "flock": 1, "taskset": 1}
"""Wrapper -> how many operands stand before the command."""

FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

_INTERPRETERS = _words(
    "python pypy perl ruby node nodejs deno bun php lua awk gawk mawk nawk tclsh expect osascript "
    "ed ex vi vim nvim emacs ssh su runuser sg script tar gdb tmux screen"
)
"""Programs that can be told, inside an argument, to run another."""


def base_name(word: str) -> str:
    """The program a command word names, without its directory."""
    return word.rsplit("/", 1)[-1]


def is_interpreter(name: str) -> bool:
    """Is this (base) name an interpreter's, perhaps with a version (`python3.12`)?"""
    return name in _INTERPRETERS or name.rstrip("0123456789.-") in _INTERPRETERS


def is_wrapper(words: Sequence[str]) -> bool:
    """Does this command run another one that its arguments name?"""
    name = base_name(words[0])
    return (
        name in VALUE_OPTIONS
        or name in SHELLS
        or name in EVALUATORS
        or name in OPAQUE
        or is_loader(name)
        or (name == "find" and not FIND_ACTIONS.isdisjoint(words))
    )


def evaluates(words: Sequence[str]) -> bool:
    """Is this a builtin that may run code hidden in its arguments?"""
    name = base_name(words[0])
    options = CODE_WITH_OPTION.get(name, ())
    return name in CODE_IN_DATA or any(word.startswith(options) for word in words[1:] if options)


def is_loader(name: str) -> bool:
    """Is this the dynamic loader, which runs the program it is given?"""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))
