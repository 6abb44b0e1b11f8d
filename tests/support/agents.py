"""Agents for tests: over a scripted model, with options of all kinds by name."""

from typing import Any

from msgspec.structs import replace

from alhena.agent.runner import SessionRunner
from alhena.library.agent import Agent
from alhena.library.options import AgentOptions, session_options
from alhena.models.generator import ContentGenerator
from alhena.values import Limits

_ARGUMENTS = frozenset(
    {"instructions", "tools", "approval_mode", "policy", "cwd", "resume", "history"}
)
_LIMITS = {"max_turns": "turns", "max_tokens": "tokens", "max_seconds": "seconds"} | {
    "max_cost": "cost"
}


def scripted_agent(
    generator: ContentGenerator | None = None, model: str | None = None, **options: Any
) -> SessionRunner:
    """An agent whose requests `generator` answers under the name `model`. `options` are arguments
    of Agent, fields of AgentOptions or of the values in SessionSpec, and limits by their names
    there."""
    arguments = {name: options.pop(name) for name in _ARGUMENTS & options.keys()}
    limits = {_LIMITS[name]: options.pop(name) for name in _LIMITS.keys() & options.keys()}
    if generator is not None and model is not None:
        generator.name = model  # pyright: ignore[reportAttributeAccessIssue]
    rest = options.keys() - AgentOptions.__struct_fields__
    of_session = {name: options.pop(name) for name in rest}
    agent = Agent(
        generator or model,
        **arguments,
        limits=Limits(**limits),
        options=AgentOptions(**options),
    )
    if not of_session:
        return agent.session
    given = agent._given  # pyright: ignore[reportPrivateUsage]
    session = session_options(given)
    groups: dict[str, Any] = {}
    for group in session.__struct_fields__:
        value = getattr(session, group)
        names = of_session.keys() & set(value.__struct_fields__)
        groups[group] = replace(value, **{name: of_session.pop(name) for name in names})
    if of_session:
        raise TypeError(f"there is no option {', '.join(of_session)}")
    return SessionRunner(replace(session, **groups))
