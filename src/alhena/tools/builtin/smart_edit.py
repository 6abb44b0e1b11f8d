"""smart_edit: like replace, but also matches similar text or asks a model once (TOOLS-11)."""

from typing import TYPE_CHECKING, Any

from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool
from alhena.tools.contract import ToolFailure, ToolInvocation

if TYPE_CHECKING:
    from alhena.tools.edit.correction import Ask


class SmartEdit(DeclarativeTool):
    """Edits files of the workspace. Without `ask`, failed edits are not corrected."""

    name = "smart_edit"

    def __init__(
        self, workspace: Workspace, ask: "Ask | None" = None, timeout: float | None = None
    ) -> None:
        self._workspace = workspace
        self._ask = ask
        self._timeout = timeout

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a path in the workspace."""
        from alhena.tools.edit.proposal import target_problem

        return target_problem(self._workspace, params["file_path"])

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        from alhena.tools.edit.correction import TIMEOUT_S, CorrectedEdit

        timeout = TIMEOUT_S if self._timeout is None else self._timeout
        return CorrectedEdit(self._workspace, params, self._ask, timeout)
