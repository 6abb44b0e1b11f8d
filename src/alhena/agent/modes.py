"""The approval mode of a session, which tools and people can change while it runs."""

from collections.abc import Callable

from alhena.policy.model import ApprovalMode


class SessionMode:
    """The mode now, and the one that leaving plan mode leads back to. Satisfies
    `tools.plan_mode.ModeSwitch`. `allows_yolo`: whether everything may run without asking."""

    def __init__(self, mode: ApprovalMode = ApprovalMode.DEFAULT) -> None:
        self.allows_yolo = True
        self._mode = mode
        self._work_mode = ApprovalMode.DEFAULT if mode is ApprovalMode.PLAN else mode
        self._listeners: list[Callable[[], None]] = []

    @property
    def mode(self) -> ApprovalMode:
        """The mode now."""
        return self._mode

    @property
    def planning(self) -> bool:
        """Whether plan mode is on."""
        return self._mode is ApprovalMode.PLAN

    @property
    def next_mode(self) -> str:
        """The mode that leaving plan mode leads to: the one before it."""
        return self._work_mode

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every change."""
        self._listeners.append(listener)

    def switch(self, mode: ApprovalMode) -> None:
        """Changes the mode; holds for every decision from now on, also in the turn that runs. Where
        yolo mode is not allowed, the default takes its place."""
        if mode is ApprovalMode.YOLO and not self.allows_yolo:
            mode = ApprovalMode.DEFAULT
        if mode is self._mode:
            return
        self._mode = mode
        if mode is not ApprovalMode.PLAN:
            self._work_mode = mode
        for listener in self._listeners:
            listener()

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        self.switch(ApprovalMode.PLAN)

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off, into `mode`, or `next_mode` without one; nothing changes when it is
        off."""
        if self.planning:
            self.switch(self._work_mode if mode is None else ApprovalMode(mode))
