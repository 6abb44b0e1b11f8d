"""The seams by which the answer to a confirmation becomes part of the call that it lets run."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from alhena.tools.contract import ToolInvocation


@runtime_checkable
class QuestioningInvocation(ToolInvocation, Protocol):
    """A call that asks a person something, whose answers may come with the approval."""

    def with_answers(self, answers: Mapping[int, str]) -> ToolInvocation:
        """The call that has its answers, by the index of the question."""
        ...


@runtime_checkable
class ApprovableInvocation(ToolInvocation, Protocol):
    """A call that does more when a person has approved it than unasked."""

    def approve(self) -> None:
        """Notes that a person has approved this call."""
        ...


@runtime_checkable
class PlanningInvocation(ToolInvocation, Protocol):
    """A call that ends plan mode, whose approval may say which mode follows."""

    def with_mode(self, mode: str) -> ToolInvocation:
        """The call that goes over to `mode`: default, autoEdit or yolo."""
        ...
