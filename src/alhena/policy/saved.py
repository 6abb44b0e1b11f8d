"""Approvals that a person gave permanently: rules at the end of the user's auto-saved.toml."""

import os
from pathlib import Path
from typing import Any, cast

from alhena.errors import ConfigError
from alhena.policy.load import MAX_FILE_BYTES
from alhena.policy.model import PolicyRule
from alhena.policy.parse import rule_fields

LOCK_NAME = ".auto-saved.lock"
HEAD = "# Rules that approvals saved. Change or remove them here.\n"


def save_rule(rule: PolicyRule, path: Path) -> None:
    """Adds a rule to the file of saved approvals, behind what is there, which stays byte for byte;
    nothing if the file has it, and of its command prefixes only those that are new.

    Two programs that save at once both keep their rules, and a crash leaves the file as it was or
    complete. A symbolic link stays one. Blocks its thread while another program saves. Raises
    ConfigError, naming the file and what to do, when it cannot be written, or is nothing that a
    rule can be added to; it is then as it was.
    """
    from alhena.system.errors import FileError, MissingFileError
    from alhena.system.files import exclusive, read_whole
    from alhena.system.private_files import keep_line_ends
    from alhena.system.replacement import replace_file

    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive(place.parent / LOCK_NAME, beside=place):
            try:
                data, found = read_whole(place, MAX_FILE_BYTES)
            except MissingFileError:
                data, found = b"", None
            text = keep_line_ends(data, lambda plain: _with_rule(rule, plain, place) or b"")
            if text:
                replace_file(place, text, expected=found, limit=MAX_FILE_BYTES)
    except (FileError, OSError) as error:
        raise _unsaved_error(f"{path}: {str(error).rstrip('.')}") from error


def _unsaved_error(reason: str, remedy: str = "") -> ConfigError:
    remedy = f"{remedy} The approval holds for this session only.".lstrip()
    return ConfigError(f"the approval was not saved: {reason}.", remedy=remedy)


def _with_rule(rule: PolicyRule, data: bytes, place: Path) -> bytes | None:
    """The file's bytes with the rule behind them; None if the file has it already."""
    import tomllib

    import tomli_w

    try:
        known: Any = tomllib.loads(data.decode("utf-8-sig")).get("rule", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"{place} is not TOML: {error}"
        raise _unsaved_error(reason, "Correct the file or move it away.") from error
    tables = cast("list[Any]", known) if isinstance(known, list) else []
    fields = _new_fields(rule, tables)
    if fields is None:
        return None
    try:
        table = f"[[rule]]\n{tomli_w.dumps(fields)}".encode()
    except UnicodeEncodeError as error:
        raise _unsaved_error("no file can hold its characters") from error
    before = data or HEAD.encode()
    text = before + (b"\n" if before.endswith(b"\n") else b"\n\n") + table
    if len(text) > MAX_FILE_BYTES:
        reason = f"{place} would be larger than {MAX_FILE_BYTES} bytes"
        raise _unsaved_error(reason, "Remove rules from it.")
    try:
        held = tomllib.loads(text.decode("utf-8-sig")).get("rule")
    except tomllib.TOMLDecodeError:
        held = None
    if held != [*tables, fields]:
        reason = f"{place} has its rules in another form than [[rule]]"
        raise _unsaved_error(reason, "Write each under a [[rule]] of its own.")
    return text


def _new_fields(rule: PolicyRule, tables: list[Any]) -> dict[str, Any] | None:
    """The fields of the rule that are not in the file yet, as they are written."""
    fields = rule_fields(rule)
    if len(rule.tool_names) == 1:
        fields["toolName"] = rule.tool_names[0]
    prefixes = fields.pop("commandPrefix", None)
    known: list[Any] = []
    for table in tables:
        if isinstance(table, dict):
            others = dict(cast("dict[str, Any]", table))
            said = others.pop("commandPrefix", None)
            if others == fields and said is None:
                return None
            if others == fields:
                known += said if isinstance(said, list) else [said]
    if prefixes is None:
        return fields
    new = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in known]
    return {**fields, "commandPrefix": new[0] if len(new) == 1 else new} if new else None
