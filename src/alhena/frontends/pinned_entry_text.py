"""A workspace's servers and commands as text, for the person who accepts them."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from alhena.config.environment import has_secret_name, is_choosing
from alhena.config.pinned_entries import MAX_TEXT, UNWATCHED, Bound, runs_command
from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import exact, one_line

_SAID = frozenset(
    {
        *("command", "args", "url", "httpUrl", "type", "trust", "timeout", "description"),
        *("includeTools", "excludeTools"),
    }
)
"""Members of a server's entry that are shown otherwise, or do not say what it is."""


def entry_lines(each: Bound, value: Any, redaction: EnvironmentRedaction) -> Iterator[str]:
    """An entry that is not accepted yet; `value` is what the settings say, `redaction` what
    the user's settings say of the environment of children."""
    name = one_line(each.label, 80)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from (f"{name}: {_shown(words)}" for words in _server_words(fields))
        more = {key: member for key, member in fields.items() if key not in _SAID and member}
        if more:
            yield f"{name} with {_shown(msgspec.json.encode(more).decode('utf-8'))}"
    else:
        yield f"{name}: {_shown(value if isinstance(value, str) else '?')}"
    yield from _chosen(each)
    if each.files:
        yield f"{name} with what is now in {_shown(', '.join(each.files))}"
    elif each.acceptable and runs_command(value):
        yield f"{name}: {UNWATCHED}"
    yield from _given(each, redaction)


def pending_lines(each: Bound, redaction: EnvironmentRedaction) -> Iterator[str]:
    """An entry that is held back: the reason, and its change as a unified diff, or the whole entry.
    Never shortened, since the reader is about to accept it."""
    yield f"{one_line(each.label, 80)}: {one_line(each.why, 600)}"
    new = each.before is None or max(len(each.before), len(each.text)) >= MAX_TEXT
    rows = each.text.split("\n") if new else _difference(each)
    yield from (f"    {exact(row)}" for row in rows)
    more = (*_doubted(each), *_chosen(each), *_given(each, redaction))
    yield from (f"    {row}" for row in more)


def _difference(each: Bound) -> list[str]:
    from difflib import unified_diff

    before, now = (each.before or "").split("\n"), each.text.split("\n")
    rows = [*unified_diff(before, now, lineterm="", n=2)][2:]
    found = [row for row in rows if not row.startswith("@@")]
    return found or ["(changed ones are not among those shown)"]


def _doubted(each: Bound) -> Iterator[str]:
    """The reason why a change of what may be data is asked about, and how to end that."""
    from shlex import quote

    for name in each.doubtful:
        yield _shown(
            f"{name} is watched, for it may say what is run, and no repository tells whose it is; "
            f"if this program writes it itself: alhena trust --data {quote(name)}"
        )


def _chosen(each: Bound) -> Iterator[str]:
    """Variables of an entry that can make its command run another program."""
    told = [name for name in each.variables if is_choosing(name)]
    if told:
        yield (
            f"{one_line(each.label, 80)}: its variables choose the program, "
            f"its source or its server: {_shown(', '.join(told))}"
        )


def _given(each: Bound, redaction: EnvironmentRedaction) -> Iterator[str]:
    """The user's secrets an entry receives: variables it names, and those the user's settings pass
    to every child."""
    name = one_line(each.label, 80)
    key = "security.environmentVariableRedaction"
    if not each.server and not redaction.enabled:
        yield f"{name} is given all your variables, secrets too: {key}.enabled is false"
    elif redaction.allowed:
        allowed = ", ".join(one_line(variable, 80) for variable in redaction.allowed)
        yield f"{name} is given what {key}.allowed lets through: {allowed}"
    if each.given:
        told = (
            f"{name} (a secret by its name)" if has_secret_name(name) else name
            for name in each.given
        )
        yield f"{name} is given what these variables of yours hold: {', '.join(told)}"


def _server_words(members: dict[str, Any]) -> Iterator[str]:
    """All that a server may turn out to be: its command line, its URLs. Which of them it is can
    depend on what variables hold when it is started."""
    addresses = [str(members[key]) for key in ("httpUrl", "url") if members.get(key)]
    arguments = members.get("args")
    words: list[Any] = [members["command"]] if members.get("command") else []
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    elif arguments:
        words.append(arguments)
    if words or not addresses:
        yield " ".join(map(str, words)) or "?"
    for count, address in enumerate(addresses):
        if words and count == 0:
            yield f"it is connected to instead of run wherever this is not empty: {address}"
        elif count:
            yield f"or, where that is empty, it is connected to {address}"
        else:
            yield address


def _shown(text: str) -> str:
    told = exact(text)
    return one_line(told, len(told))
