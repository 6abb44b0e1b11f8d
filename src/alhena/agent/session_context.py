"""What a session tells the model of where it runs, gathered from the machine."""

import sys
import time
from collections.abc import Mapping

from alhena.chat.prompt import EnvironmentFacts
from alhena.system.folder import folder_structure
from alhena.system.ignore import IgnoreRules
from alhena.system.workspace import Workspace


def environment_facts(
    workspace: Workspace, environ: Mapping[str, str], project_memory: str
) -> EnvironmentFacts:
    """The facts of now. `project_memory` is what the project's context files say."""
    roots = workspace.roots
    trees = (folder_structure(root, IgnoreRules(root, environ=environ)) for root in roots)
    return EnvironmentFacts(
        date=time.strftime("%A, %B %d, %Y"),
        platform=sys.platform,
        directories=tuple(str(root) for root in roots),
        folder_structure="\n\n".join(trees),
        project_memory=project_memory,
    )
