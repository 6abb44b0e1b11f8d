"""The arguments of an `Agent`, checked before anything is done with them."""

from typing import cast

from alhena.errors import InputError
from alhena.tools.contract import Tool


def require_name(model: object) -> None:
    """Raises TypeError for what is no name of a model."""
    if model is not None and not isinstance(model, str):
        raise TypeError(f"model has to be a name, not {type(model).__name__}")


def require_text(prompt: object) -> None:
    """Raises InputError for a prompt that says nothing."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError("the prompt is empty or no text.", remedy="Give a string.")


def checked_tool(item: object) -> Tool:
    """A tool as it was given. Raises TypeError for what is none."""
    if callable(getattr(item, "build", None)) and callable(getattr(item, "declaration", None)):
        return cast("Tool", item)
    name = getattr(item, "__name__", type(item).__name__)
    raise TypeError(f"{name} is no tool; make a function one with @tool")
