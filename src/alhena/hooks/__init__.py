"""Hooks around prompts, requests and tool calls; for programs, the classes of typed ones."""

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from alhena.hooks.functions import (
        AfterAgent,
        AfterModel,
        AfterTool,
        BeforeAgent,
        BeforeModel,
        BeforeTool,
        BeforeToolSelection,
        Notification,
        PreCompress,
        SessionEnd,
        SessionStart,
    )

__all__ = [
    "AfterAgent",
    "AfterModel",
    "AfterTool",
    "BeforeAgent",
    "BeforeModel",
    "BeforeTool",
    "BeforeToolSelection",
    "Notification",
    "PreCompress",
    "SessionEnd",
    "SessionStart",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'alhena.hooks' has no attribute {name!r}")
    return getattr(import_module("alhena.hooks.functions"), name)


def __dir__() -> list[str]:
    return __all__
