"""alhena: an agent core for Gemini models.

    from alhena import Agent, tool

Names load on first use, so that `import alhena` costs nothing but this file.
"""

from alhena.version import __version__

TYPE_CHECKING = False  # type checkers read it as true; importing typing would cost `--version` 5 ms
if TYPE_CHECKING:
    from alhena.errors import AlhenaError
    from alhena.library.agent import Agent
    from alhena.library.options import AgentOptions, Limits
    from alhena.policy.model import ApprovalMode
    from alhena.tools.confirmation import ToolConfirmationOutcome
    from alhena.tools.contract import ToolResult
    from alhena.tools.function import tool

__all__ = [
    "Agent",
    "AgentOptions",
    "AlhenaError",
    "ApprovalMode",
    "Limits",
    "ToolConfirmationOutcome",
    "ToolResult",
    "__version__",
    "tool",
]

_HOMES = {
    "Agent": "alhena.library.agent",
    "AgentOptions": "alhena.library.options",
    "AlhenaError": "alhena.errors",
    "ApprovalMode": "alhena.policy.model",
    "Limits": "alhena.library.options",
    "ToolConfirmationOutcome": "alhena.tools.confirmation",
    "ToolResult": "alhena.tools.contract",
    "tool": "alhena.tools.function",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'alhena' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
