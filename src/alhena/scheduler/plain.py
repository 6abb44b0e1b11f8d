"""What people see of a call, as plain values that encode to JSON as they are."""

from typing import Any, cast

import msgspec

from alhena.tools.confirmation import ConfirmationDetails, EditConfirmation
from alhena.tools.display import DiffStat, FileDiff
from alhena.wire.text import scrub


def plain(value: object) -> Any:
    """`value` with structs as dicts and text without lone surrogates.

    Raises what msgspec raises for values that have no plain form.
    """
    return _scrubbed(value if isinstance(value, str) else msgspec.to_builtins(value))


def proposal(details: ConfirmationDetails) -> FileDiff | None:
    """The change that was waiting for approval, to be shown when it is given up."""
    if not isinstance(details, EditConfirmation):
        return None
    lines = details.file_diff.splitlines()
    return FileDiff(
        file_diff=details.file_diff,
        file_name=details.file_name,
        file_path=details.file_path,
        original_content=details.original_content,
        new_content=details.new_content,
        diff_stat=DiffStat(ai_added_lines=_count(lines, "+"), ai_removed_lines=_count(lines, "-")),
    )


def _count(lines: list[str], sign: str) -> int:
    """Lines of a unified diff with this sign, its file headers aside."""
    return sum(line.startswith(sign) and not line.startswith(sign * 3) for line in lines)


def _scrubbed(value: Any) -> Any:
    match value:
        case str():
            return scrub(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {scrub(key): _scrubbed(item) for key, item in members.items()}
        case list() | tuple():
            return [_scrubbed(item) for item in cast("list[Any]", value)]
        case _:
            return value
