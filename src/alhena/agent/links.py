"""What ties tools to the session they serve."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from alhena.agent.model_access import Source
from alhena.events import Event
from alhena.values import Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.agent.fallback import SessionFallback
    from alhena.scheduler.confirmation import Approver
    from alhena.tools.builtin.ask_user import Ask


async def at_once() -> None:
    """Paces nobody."""


class SessionLinks(Value, frozen=True, kw_only=True):
    """`answering` gives the model when a tool first needs one; `emit` takes the events of such
    requests and `pace` holds them back; `approver` and `ask` reach the person, if there is one;
    `fallback` decides whether another model answers when one cannot;
    `opening` are the contents that a subagent's conversation begins with; `transcript` is the path
    of the session's record, "" for none. With `texts` the events
    of requests say what was sent and answered."""

    session_id: str
    answering: Source
    emit: Callable[[Event], None] = lambda _event: None
    pace: Callable[[], Awaitable[None]] = at_once
    approver: "Approver | None" = None
    ask: "Ask | None" = None
    fallback: "SessionFallback | None" = None
    opening: tuple[Content, ...] = ()
    texts: bool = False
    transcript: str = ""
