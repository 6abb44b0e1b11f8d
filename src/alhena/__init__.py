"""alhena: an agent core for Gemini models.

    from alhena import Agent, tool

Names load on first use, so that `import alhena` costs nothing but this file.
"""

from alhena.version import __version__

DISTRIBUTION = "alhena-agent"
"""The name on PyPI; `alhena` is another project's there. `alhena_command` compares it."""

TYPE_CHECKING = False  # type checkers read it as true; importing typing would cost `--version` 5 ms
if TYPE_CHECKING:
    from alhena import errors, evals, events, hooks, models, native, otel, testing
    from alhena.agent.final_answer import OutputError
    from alhena.agent.limits import BusyError, LimitError, Usage
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.batch.many import Outcome, Task, run_many
    from alhena.errors import AlhenaError, ConfigError, ToolError
    from alhena.library.agent import Agent
    from alhena.library.context import RunContext
    from alhena.library.options import (
        AgentOptions,
        Hook,
        HttpServer,
        InProcessServer,
        Server,
        StdioServer,
        Subagent,
    )
    from alhena.library.result import DeniedCall, Result, Run
    from alhena.models.generator import Model
    from alhena.models.settings import ModelSettings
    from alhena.policy.model import ApprovalMode, Rule
    from alhena.scheduler.question import Answer, Approver, ConfirmationRequest
    from alhena.session.stored import Store
    from alhena.session.stores import FileStore, SQLiteStore
    from alhena.tools.contract import Deferred, Kind, Tool, ToolResult
    from alhena.tools.function import ToolContext, call_tool, tool
    from alhena.tools.media import Audio, Document, Image, Video
    from alhena.values import FailedCall, Limits
    from alhena.wire.content import Content, Part

__all__ = [
    "Agent",
    "AgentOptions",
    "AlhenaError",
    "Answer",
    "ApprovalMode",
    "Approver",
    "Audio",
    "BusyError",
    "ConfigError",
    "ConfirmationRequest",
    "Content",
    "Deferred",
    "DeniedCall",
    "Document",
    "FailedCall",
    "FileStore",
    "Hook",
    "HttpServer",
    "Image",
    "InProcessServer",
    "Kind",
    "LimitError",
    "Limits",
    "Model",
    "ModelSettings",
    "Outcome",
    "OutputError",
    "Part",
    "RemoteAgent",
    "Result",
    "Rule",
    "Run",
    "RunContext",
    "SQLiteStore",
    "Server",
    "StdioServer",
    "Store",
    "Subagent",
    "Task",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Usage",
    "Video",
    "__version__",
    "call_tool",
    "errors",
    "evals",
    "events",
    "hooks",
    "models",
    "native",
    "otel",
    "run_many",
    "testing",
    "tool",
]

_HOMES = {
    "Agent": "alhena.library.agent",
    "AgentOptions": "alhena.library.options",
    "AlhenaError": "alhena.errors",
    "Answer": "alhena.scheduler.question",
    "ApprovalMode": "alhena.policy.model",
    "Approver": "alhena.scheduler.question",
    "Audio": "alhena.tools.media",
    "BusyError": "alhena.agent.limits",
    "ConfigError": "alhena.errors",
    "ConfirmationRequest": "alhena.scheduler.question",
    "Content": "alhena.wire.content",
    "Deferred": "alhena.tools.contract",
    "DeniedCall": "alhena.library.result",
    "Document": "alhena.tools.media",
    "FailedCall": "alhena.values",
    "FileStore": "alhena.session.stores",
    "Hook": "alhena.library.options",
    "HttpServer": "alhena.library.options",
    "Image": "alhena.tools.media",
    "InProcessServer": "alhena.library.options",
    "Kind": "alhena.tools.contract",
    "LimitError": "alhena.agent.limits",
    "Limits": "alhena.values",
    "Model": "alhena.models.generator",
    "ModelSettings": "alhena.models.settings",
    "Outcome": "alhena.batch.many",
    "OutputError": "alhena.agent.final_answer",
    "Part": "alhena.wire.content",
    "RemoteAgent": "alhena.agent.subagents.remote",
    "Result": "alhena.library.result",
    "Rule": "alhena.policy.model",
    "Run": "alhena.library.result",
    "RunContext": "alhena.library.context",
    "SQLiteStore": "alhena.session.stores",
    "Server": "alhena.library.options",
    "StdioServer": "alhena.library.options",
    "Store": "alhena.session.stored",
    "Subagent": "alhena.library.options",
    "Task": "alhena.batch.many",
    "Tool": "alhena.tools.contract",
    "ToolContext": "alhena.tools.function",
    "ToolError": "alhena.errors",
    "ToolResult": "alhena.tools.contract",
    "Usage": "alhena.agent.limits",
    "Video": "alhena.tools.media",
    "call_tool": "alhena.tools.function",
    "run_many": "alhena.batch.many",
    "tool": "alhena.tools.function",
}
_MODULES = ("errors", "evals", "events", "hooks", "models", "native", "otel", "testing")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"alhena.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'alhena' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
