"""The state of a subagent that waits in a run, and the answers with which it continues."""

from collections.abc import Mapping

import msgspec

from alhena.scheduler.question import Answer
from alhena.session.records import Answered
from alhena.values import Value
from alhena.wire.content import Content


class AgentState(Value, frozen=True, kw_only=True, rename="camel"):
    """A subagent that waits in a run, as a `RunState`: its conversation, which ends with calls,
    those of them that have run, its turns and words until now, and the `agents` that wait below
    it, by the calls that run them."""

    agent: str
    agent_id: str
    contents: tuple[Content, ...]
    answered: tuple[Answered, ...]
    turns: int
    said: tuple[str, ...] = ()
    agents: "dict[str, AgentState]" = msgspec.field(default_factory=dict[str, "AgentState"])


class Resumption(Value, frozen=True, kw_only=True):
    """A subagent that continues: its state, and the answers to its calls by their ids."""

    state: AgentState
    answers: Mapping[str, Answer]
