"""The seam between the plan mode tools and whoever holds the session's approval mode."""

from typing import Protocol


class ModeSwitch(Protocol):
    """A session's mode, as far as planning goes. Policy, declarations and system prompt follow."""

    @property
    def planning(self) -> bool:
        """Whether plan mode is on."""
        ...

    @property
    def next_mode(self) -> str:
        """The mode that leaving plan mode leads to: default, autoEdit or yolo."""
        ...

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        ...

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off, into `mode`, or `next_mode` without one."""
        ...
