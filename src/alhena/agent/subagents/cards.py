"""Reads the agent cards of remote agents, so that a model knows what they are for."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from alhena.agent.subagents.remote import RemoteAgent, checked_url
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.http.addresses import refusal
from alhena.models.providers.foreign import decode_object
from alhena.models.service import FixedAccess, HttpService
from alhena.tools.builtin.subagents import DelegateToAgent
from alhena.wire.json_values import as_array, as_object

PATIENCE_S = 4.0
"""Seconds that a card may take."""
MAX_SAID, MAX_SKILL, MAX_SKILLS = 400, 160, 12
"""Most characters of a card's description and of a skill, and most skills."""


async def describe_by_cards(
    tool: DelegateToAgent,
    agents: Iterable[RemoteAgent],
    environ: Mapping[str, str],
    may_be_called: Callable[[str], bool],
) -> None:
    """Adds to the descriptions of remote agents what their cards say. Only cards of agents that
    may be called and need no credentials are read: none are sent before a person or a rule has
    allowed a task. A card that cannot be read adds nothing."""
    wanted = [agent for agent in agents if may_be_called(agent.name) and agent.auth is None]
    found = await asyncio.gather(*(_read(agent, environ) for agent in wanted))
    told = {
        agent.name: _join(agent.description, text)
        for agent, text in zip(wanted, found, strict=True)
        if text
    }
    tool.describe(told)


def describe_card(card: dict[str, Any]) -> str:
    """The description and the skills of a card, each on a line, shortened."""
    lines = [one_line(str(card.get("description") or ""), MAX_SAID)]
    for each in (as_array(card.get("skills")) or ())[:MAX_SKILLS]:
        skill = as_object(each) or {}
        words = (str(skill.get(key) or "") for key in ("name", "description"))
        text = one_line(": ".join(filter(None, words)), MAX_SKILL)
        if text:
            lines.append(f"  - {text}")
    return "\n".join(filter(None, lines))


def _join(own: str, told: str) -> str:
    """The description of the definition, if there is one, and what the card says."""
    return f"{own}\n  Its agent card says: {told}" if own else told


async def _read(agent: RemoteAgent, environ: Mapping[str, str]) -> str:
    try:
        if agent.is_inline:
            return describe_card(decode_object(agent.card.encode()))
        async with asyncio.timeout(PATIENCE_S):
            return describe_card(await _fetch(agent.card_url, environ))
    except (AlhenaError, TimeoutError):
        return ""  # the call tells why


async def _fetch(url: str, environ: Mapping[str, str]) -> dict[str, Any]:
    endpoint = checked_url(url, "the agent card")
    if refused := refusal(endpoint.host):
        raise AlhenaError(refused)
    parts = urlsplit(url)
    http = HttpService(
        msgspec.structs.replace(endpoint, prefix=""), FixedAccess({}, ""), environ=environ
    )
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        return await http.ask(path, "agent-card", None, decode_object)
    finally:
        await http.aclose()
