"""Files of the workspace that have the name of one that is not there."""

from itertools import islice
from pathlib import Path

from alhena.system.errors import printable
from alhena.system.workspace import Workspace

_LOOKED_AT = 20_000
_NAMED = 3


def namesakes(workspace: Workspace, path: Path) -> str:
    """A sentence on up to three files that are called as `path` is; "" when there are none.

    The first 20,000 files that are not ignored are looked at.
    """
    from alhena.system.ignore import IgnoreRules
    from alhena.system.walk import walk

    found: list[str] = []
    left = _LOOKED_AT
    for root in workspace.roots:
        for entry in islice(walk(root, IgnoreRules(root)), left):
            left -= 1
            if entry.name == path.name:
                found.append(printable(workspace.relative(Path(entry.path))))
                if len(found) == _NAMED:
                    break
    if not found:
        return ""
    return f"There is {', '.join(dict.fromkeys(found))}. "
