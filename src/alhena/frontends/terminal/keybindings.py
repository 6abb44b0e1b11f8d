"""Keys of a person's own: ~/.gemini/keybindings.json."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any, cast

import msgspec

from alhena.config.documents import NotReadableError, TooLargeError, read_limited
from alhena.config.home import config_home
from alhena.config.jsonc import strip_comments

NAME = "keybindings.json"
MAX_BYTES = 100_000
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "app.clearScreen": ("c-l",),
    "app.cycleApprovalMode": ("s-tab",),
    "app.expandPaste": ("c-o",),
    "app.showMoreLines": ("c-o",),
    "app.suspend": ("c-z",),
    "app.toggleYolo": ("c-y",),
    "basic.cancel": ("escape",),
    "basic.exit": ("c-d",),
    "basic.quit": ("c-c",),
    "cursor.down": ("down",),
    "cursor.end": ("c-e",),
    "cursor.home": ("c-a",),
    "cursor.left": ("left",),
    "cursor.right": ("right",),
    "cursor.up": ("up",),
    "cursor.wordLeft": ("escape", "b"),
    "cursor.wordRight": ("escape", "f"),
    "edit.deleteLeft": ("c-h",),
    "edit.deleteLeftAll": ("c-u",),
    "edit.deleteRight": ("delete",),
    "edit.deleteRightAll": ("c-k",),
    "edit.deleteWordLeft": ("c-w",),
    "edit.deleteWordRight": ("escape", "d"),
    "edit.undo": ("c-_",),
    "history.next": ("c-n",),
    "history.previous": ("c-p",),
    "history.search.start": ("c-r",),
    "input.deprecatedOpenExternalEditor": ("c-x", "c-e"),
    "input.newline": ("c-j",),
    "input.openExternalEditor": ("c-g",),
    "input.paste": ("c-v",),
    "input.submit": ("c-m",),
    "suggest.accept": ("c-i",),
}
"""Commands that can have other keys, with the key that each has here."""
_ALIASES = {"enter": "c-m", "tab": "c-i", "backspace": "c-h", "c- ": "c-@", "c-[": "escape"}
_MOVING = ("left", "right", "up", "down", "home", "end", "insert", "delete", "pageup", "pagedown")
_SENT = frozenset(
    (
        *(f"{held}{name}" for held in ("", "s-", "c-", "c-s-") for name in _MOVING),
        *(f"c-{sign}" for sign in f"{ascii_lowercase}@\\]^_"),
        *(f"f{number}" for number in range(1, 25)),
        *("escape", "s-tab", " "),
    )
)
"""Keys that terminals send, beside signs, by prompt_toolkit's names."""
_MODIFIERS = {
    "ctrl+": "ctrl",
    "shift+": "shift",
    "alt+": "alt",
    "option+": "alt",
    "opt+": "alt",
    "cmd+": "cmd",
    "meta+": "cmd",
}


class Rebinding(msgspec.Struct, frozen=True):
    """A key, as prompt_toolkit names its parts, that gets a command, or loses it."""

    command: str
    keys: tuple[str, ...]
    removes: bool


class KeyFile(msgspec.Struct, frozen=True):
    """The entries of a file. `unknown` are commands that have no effect here; `problems` say what
    of the file cannot be used."""

    entries: tuple[Rebinding, ...] = ()
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def key_file_path(environ: Mapping[str, str]) -> Path:
    """The file with the keys of a person's own."""
    return config_home(environ) / NAME


def read_key_file(environ: Mapping[str, str]) -> KeyFile:
    """The entries of the file that can be used, none where there is no file."""
    path = key_file_path(environ)
    try:
        text = read_limited(path, MAX_BYTES).decode("utf-8")
        found: object = msgspec.json.decode(strip_comments(text))
    except FileNotFoundError:
        return KeyFile()
    except (OSError, NotReadableError, TooLargeError, ValueError) as error:
        return KeyFile(problems=(f"{path} cannot be used: {error}.",))
    if not isinstance(found, list):
        return KeyFile(problems=(f"{path} cannot be used: it is no list of commands and keys.",))
    entries: list[Rebinding] = []
    unknown: list[str] = []
    problems: list[str] = []
    for number, each in enumerate(cast("list[Any]", found), 1):
        try:
            entry = _entry(each)
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(f"{path}, entry {number}: {error}.")
            continue
        if entry.command in COMMANDS:
            entries.append(entry)
        elif entry.command not in unknown:
            unknown.append(entry.command)
    return KeyFile(tuple(entries), tuple(unknown), tuple(problems))


class _KeyEntry(msgspec.Struct):
    command: str
    key: str


def _entry(given: object) -> Rebinding:
    entry = msgspec.convert(given, _KeyEntry)
    command = entry.command.removeprefix("-")
    keys = prompt_keys(entry.key) if command in COMMANDS else ()
    return Rebinding(command, keys, removes=command != entry.command)


def prompt_keys(pattern: str) -> tuple[str, ...]:
    """The parts of a key such as `ctrl+x` or `alt+enter`. Raises ValueError for one that terminals
    do not send, or that is none."""
    name, held = pattern.strip(), set[str]()
    while found := next((each for each in _MODIFIERS if name.lower().startswith(each)), None):
        name = name[len(found) :]
        held.add(_MODIFIERS[found])
    single = len(name) == 1
    if not single:
        name = {"space": " "}.get(name.lower(), name.lower())
    if single and "ctrl" not in held:
        key = name.upper() if "shift" in held else name
    else:
        key = f"{'c-' * ('ctrl' in held)}{'s-' * ('shift' in held)}{name.lower()}"
        key = _ALIASES.get(key, key)
    if "cmd" in held or (key not in _SENT and len(key) != 1):
        raise ValueError(f"terminals send no key {pattern!r}")
    return ("escape", key) if "alt" in held else (key,)


def changed_keys(entries: Iterable[Rebinding]) -> dict[tuple[str, ...], str]:
    """The command of each key that is not as it was, "" for none."""
    found: dict[tuple[str, ...], str] = {}
    for each in entries:
        if not each.removes:
            found[each.keys] = each.command
        elif each.command in (found.get(each.keys), *_own(each.keys, found)):
            found[each.keys] = ""
    return found


def _own(keys: tuple[str, ...], found: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """The commands that a key has here, unless it was changed before."""
    if keys not in found:
        yield from (command for command, own in COMMANDS.items() if own == keys)
