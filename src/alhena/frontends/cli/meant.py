"""Words that would go to the model as a prompt, and look like a command that was meant."""

from collections.abc import Mapping
from typing import NoReturn

from alhena.errors import UsageError

NOT_HERE = {
    "extensions": (
        *("install", "uninstall", "list", "update", "disable", "enable"),
        *("link", "new", "validate", "config"),
    ),
    "skills": ("list", "enable", "disable", "install", "uninstall", "link"),
}
"""Commands of the reference that are not here yet, and what they can be told."""
NEAR = 0.75
"""How like a command its misspelling is."""
_AS_PROMPT = "To send these words to the model, use -p '…'."


def refuse_commands(words: tuple[str, ...], commands: Mapping[str, tuple[str, ...]]) -> None:
    """Raises UsageError for the words of a prompt that are a command behind options, a misspelled
    one, or one of the reference that is not here."""
    name, second = words[0], words[1] if len(words) > 1 else ""
    if name in commands and (len(words) <= 2 or second in commands[name]):
        _refuse(
            f"the options stand before the command {name}.",
            f"Put the command first: alhena {name}{' ' + second if second else ''} [options].",
        )
    near = _near(name, second, commands) if second else None
    missing = near if near in NOT_HERE else name
    if missing in NOT_HERE and (not second or second in NOT_HERE[missing]):
        _refuse(f"there is no command {missing} yet.", "See alhena --help for those there are.")
    if near is not None:
        _refuse(f"there is no command {name}.", f"Did you mean alhena {near} {second}?")


def _near(name: str, action: str, commands: Mapping[str, tuple[str, ...]]) -> str | None:
    """The command that is like `name` and can be told `action`."""
    able = [each for each, actions in {**commands, **NOT_HERE}.items() if action in actions]
    if not able or name in able:
        return None
    from difflib import get_close_matches

    found = get_close_matches(name.lower(), able, n=1, cutoff=NEAR)
    return found[0] if found else None


def _refuse(what: str, hint: str) -> NoReturn:
    raise UsageError(what, remedy=f"{hint} {_AS_PROMPT}")
