"""What a session tells the model of where it runs, gathered from the machine."""

import sys
import time
from collections.abc import Mapping

from alhena.chat.prompt import EnvironmentFacts, environment_context
from alhena.system.folder import folder_structure
from alhena.system.ignore import IgnoreRules
from alhena.system.workspace import Workspace
from alhena.wire.content import Content


def first_contents(
    workspace: Workspace, environ: Mapping[str, str], project_memory: str
) -> tuple[Content, Content]:
    """The contents a new session begins with. `project_memory` is what the project's context files
    say."""
    roots = workspace.roots
    trees = (folder_structure(root, IgnoreRules(root, environ=environ)) for root in roots)
    return environment_context(
        EnvironmentFacts(
            date=time.strftime("%A, %B %d, %Y"),
            platform=sys.platform,
            directories=tuple(str(root) for root in roots),
            folder_structure="\n\n".join(trees),
            project_memory=project_memory,
        )
    )
