"""The words that may follow a command: its subcommands, and their values in the session."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from alhena.errors import AlhenaError

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation

Offer = tuple[str, str]
"""A word and its meaning."""
Values = Callable[["Conversation"], Iterable[Offer]]


def values_of(session: "Conversation", name: str, before: list[str]) -> list[Offer]:
    """The words that may follow `/name`, where these stand `before` the cursor already."""
    from alhena.frontends.terminal.commands import find_command

    found = find_command(f"/{name}")
    if found is None or found[0] is None:
        return []
    command = found[0].name
    if command == "settings" and len(before) == 1 and before[0] != "reset":
        return [(each, "") for each in _setting_values(session, before[0])]
    values = _VALUES.get((command, *before))
    try:
        return [*_SUBCOMMANDS.get((command, *before), ()), *(values(session) if values else ())]
    except (AlhenaError, OSError):  # nothing to offer; the command says why
        return []


def mentions_of(session: "Conversation") -> Iterator[Offer]:
    """Agents and resources of MCP servers, which an @ may name beside paths."""
    agents = session.toolset.agents
    yield from ((each.name, f"agent: {each.description}") for each in agents.local)
    control = session.toolset.server_control
    for server in control.reports if control else ():
        for each in server.resources:
            yield each.uri, f"resource of {server.name}: {each.title or each.name}"


_SUBCOMMANDS: Mapping[tuple[str, ...], tuple[Offer, ...]] = {
    ("commands",): (("reload", "read them again"),),
    ("tools",): (("desc", "with descriptions"),),
    ("mcp",): (
        ("list", "servers and their tools"),
        ("desc", "with descriptions"),
        ("schema", "with parameters"),
        ("refresh", "connect again"),
        ("auth", "sign in to a server"),
        ("enable", "turn a server on"),
        ("disable", "turn a server off"),
    ),
    ("ide",): (
        ("status", "the connected editor"),
        ("enable", "connect to the editor"),
        ("disable", "do not connect"),
        ("install", "the companion extension"),
    ),
    ("skills",): (
        ("reload", "read them again"),
        ("enable", "turn a skill on"),
        ("disable", "turn a skill off"),
    ),
    ("memory",): (
        ("show", "text of GEMINI.md files"),
        ("list", "the files"),
        ("refresh", "read them again"),
        ("add", "save a fact"),
    ),
    ("chat",): (
        ("list", "saved conversations"),
        ("save", "keep this conversation under a name"),
        ("resume", "continue a saved one"),
        ("delete", "delete a saved one"),
        ("share", "write this conversation to a file"),
    ),
    ("model",): (("set", "a model by its name"),),
    ("directory",): (("show", "directories of the workspace"), ("add", "a directory")),
    ("settings",): (("reset", "remove one of yours"),),
    ("tasks",): (("show", "output of one"), ("stop", "end one")),
}


def _tags(session: "Conversation") -> Iterator[Offer]:
    tags = session.agent.checkpoints.conversations.all()
    return ((each.name, f"{each.saved[:16]}  {each.title}") for each in tags)


def _models(session: "Conversation") -> Iterator[Offer]:
    from alhena.models.catalogue import served_models, today

    now = session.identity[1]
    yield now, "current"
    for each in served_models(today()):
        if each.name != now:
            yield each.name, f"{each.input_limit:,} tokens"


def _server_names(session: "Conversation") -> Iterator[Offer]:
    control = session.toolset.server_control
    return ((each.name, str(each.state)) for each in control.reports) if control else iter(())


def _skill_names(session: "Conversation") -> Iterator[Offer]:
    skills = session.toolset.skills
    found = {} if skills is None else skills.active
    return ((name, each.description) for name, each in found.items())


def _setting_keys(_session: "Conversation") -> Iterator[Offer]:
    from alhena.frontends.shared.setting_values import list_settings

    return ((key, "") for key in list_settings())


def _setting_values(session: "Conversation", key: str) -> tuple[str, ...]:
    from alhena.frontends.shared.setting_values import setting_choices

    if key != "ui.theme":
        return setting_choices(key)
    return tuple(session.screen.themes(session.folder.place.settings.ui.custom_themes))


def _themes(session: "Conversation") -> Iterator[Offer]:
    return ((each, "") for each in _setting_values(session, "ui.theme"))


def _checkpoints(session: "Conversation") -> Iterator[Offer]:
    from alhena.frontends.shared.descriptions import checkpoint_words

    found = reversed(session.agent.checkpoints.list())
    return ((name, checkpoint_words(each)) for name, each in found)


def _blocks(session: "Conversation") -> Iterator[Offer]:
    pages = session.pages
    return ((str(number), page.title) for number, page in reversed(pages.number_blocks()))


def _sessions(session: "Conversation") -> Iterator[Offer]:
    from alhena.frontends.shared.listings import session_rows
    from alhena.session.store import project_store

    found = project_store(os.environ, session.toolset.workspace.cwd).summaries()
    for each in reversed(found):
        (row,) = session_rows((each,))
        yield each.session_id, row.text


_VALUES: Mapping[tuple[str, ...], Values] = {
    ("chat", "resume"): _tags,
    ("chat", "load"): _tags,
    ("chat", "delete"): _tags,
    ("model", "set"): _models,
    ("mcp", "auth"): _server_names,
    ("mcp", "enable"): _server_names,
    ("mcp", "disable"): _server_names,
    ("skills", "enable"): _skill_names,
    ("skills", "disable"): _skill_names,
    ("settings",): _setting_keys,
    ("settings", "reset"): _setting_keys,
    ("theme",): _themes,
    ("restore",): _checkpoints,
    ("show",): _blocks,
    ("resume",): _sessions,
}
