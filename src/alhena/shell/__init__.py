"""Says what a shell line would do, without running it.

    from alhena.shell import read, reads_only, destroys, paths, programs

Names load on first use; nothing here asks for more of alhena than texts and values.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from alhena.shell.command import Command, Operand, Option, Role
    from alhena.shell.effects import Verdict, destroys, reads_only
    from alhena.shell.line import Line, paths, programs, read

__all__ = [
    "Command",
    "Line",
    "Operand",
    "Option",
    "Role",
    "Verdict",
    "destroys",
    "paths",
    "programs",
    "read",
    "reads_only",
]

_PLACES = {
    **dict.fromkeys(("Command", "Operand", "Option", "Role"), "command"),
    **dict.fromkeys(("Verdict", "destroys", "reads_only"), "effects"),
    **dict.fromkeys(("Line", "paths", "programs", "read"), "line"),
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'alhena.shell' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"alhena.shell.{_PLACES[name]}"), name)
