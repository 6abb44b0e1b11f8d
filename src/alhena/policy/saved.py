"""Approvals that a person gave for good: rules at the end of the user's auto-saved.toml."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from alhena.errors import ConfigError
from alhena.policy.load import MAX_FILE_BYTES
from alhena.policy.model import ApprovalMode, PolicyRule, RuleError, Tier
from alhena.policy.parse import RulePlace, parse_rule, rule_fields

LOCK_NAME = ".auto-saved.lock"
ATTEMPTS = 5
HEAD = "# Rules that approvals saved. Change or remove them here.\n"
_ELSE = "The approval holds for this session only."


def save_rule(rule: PolicyRule, path: Path) -> bool:
    """Adds a rule to the file of saved approvals, behind what is there, which stays byte for byte.

    False when rules of the file say it already; of its command prefixes, those that are new are
    written. Two programs that save at once both keep their rules, and a crash leaves the file as
    it was or complete. A new file is the user's alone; a symbolic link stays one. Blocks its
    thread while another program saves. Raises ConfigError, naming the file and what to do, when
    it cannot be written, or is nothing that a rule can be added to; it is then as it was.
    """
    from alhena.system.errors import ChangedFileError, FileError
    from alhena.system.files import exclusive

    place = Path(os.path.realpath(path))
    try:
        _make_directory(place.parent)
        with exclusive(place.parent / LOCK_NAME):
            for attempt in range(ATTEMPTS):
                try:
                    return _save(rule, place)
                except ChangedFileError:
                    # An editor, which takes no locks: what it wrote counts.
                    if attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("every attempt returns or raises")
    except FileError as error:
        raise ConfigError(
            f"the approval was not saved in {path}: {str(error).rstrip('.')}.", remedy=_ELSE
        ) from error


def _make_directory(path: Path) -> None:
    from alhena.system.errors import from_os_error

    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, path, writing=True) from error


def _save(rule: PolicyRule, place: Path) -> bool:
    from alhena.system.errors import MissingFileError
    from alhena.system.files import read_whole
    from alhena.system.replacement import replace_file

    made = False
    try:
        data, found = read_whole(place, MAX_FILE_BYTES)
    except MissingFileError:
        made = _make_file(place)
        data, found = read_whole(place, MAX_FILE_BYTES)
    try:
        wanted = _uncovered(rule, _rules(place, data))
        if wanted is None:
            return False
        text = _appended(place, data, wanted)
        replace_file(place, text, expected=found, limit=MAX_FILE_BYTES)
    except BaseException:
        if made:
            _remove_if_empty(place)
        raise
    return True


def _make_file(place: Path) -> bool:
    """An empty file that nobody else can read, for the rules to take the place of."""
    from alhena.system.errors import from_os_error

    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(place, flags, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise from_os_error(error, place, writing=True) from error
    return True


def _remove_if_empty(place: Path) -> None:
    try:
        if place.stat().st_size == 0:
            place.unlink()
    except FileNotFoundError:  # somebody else was quicker
        return


def _rules(place: Path, data: bytes) -> list[Any]:
    """The `[[rule]]` tables of the file."""
    import tomllib

    remedy = f"Correct the file or move it away. {_ELSE}"
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"the approval was not saved: {place} is not TOML: {error}.", remedy=remedy
        ) from error
    tables = document.get("rule", [])
    if not isinstance(tables, list):
        raise ConfigError(
            f"the approval was not saved: {place} has a rule that is not written as [[rule]].",
            remedy=remedy,
        )
    return cast("list[Any]", tables)


def _appended(place: Path, data: bytes, rule: PolicyRule) -> bytes:
    """The file's bytes with the rule behind them."""
    import tomllib

    import tomli_w

    fields = rule_fields(rule)
    for key in ("toolName", "commandPrefix"):
        if len(fields.get(key, ())) == 1:
            fields[key] = fields[key][0]
    try:
        table = f"[[rule]]\n{tomli_w.dumps(fields)}".encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            "the approval was not saved: no file can hold its characters.", remedy=_ELSE
        ) from error
    gap = b"" if not data else b"\n" if data.endswith(b"\n") else b"\n\n"
    text = (data or HEAD.encode()) + (gap or b"\n") + table
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(
            f"the approval was not saved: {place} would be larger than {MAX_FILE_BYTES} bytes.",
            remedy=f"Remove rules from it. {_ELSE}",
        )
    try:
        held = tomllib.loads(text.decode("utf-8-sig")).get("rule")
    except tomllib.TOMLDecodeError:
        held = None
    if held != [*_rules(place, data), fields]:
        raise ConfigError(
            f"the approval was not saved: {place} has its rules in another form than [[rule]].",
            remedy=f"Write each under a [[rule]] of its own. {_ELSE}",
        )
    return text


def _uncovered(rule: PolicyRule, tables: list[Any]) -> PolicyRule | None:
    """The part of the rule that the file does not say yet, or None."""
    alike = [saved for saved in _parsed(tables) if _says_as_much(saved, rule)]
    if not rule.command_prefixes:
        return None if any(not saved.command_prefixes for saved in alike) else rule
    known = [prefix for saved in alike for prefix in saved.command_prefixes]
    if any(not saved.command_prefixes for saved in alike):
        return None
    new = tuple(
        prefix
        for prefix in dict.fromkeys(rule.command_prefixes)
        if not any(_same(prefix, each) for each in known)
    )
    return replace(rule, command_prefixes=new) if new else None


def _parsed(tables: Iterable[Any]) -> Iterator[PolicyRule]:
    """The rules among the tables; what is none cannot cover anything, and is named on loading."""
    for number, table in enumerate(tables, start=1):
        if isinstance(table, dict):
            place = RulePlace("", number)
            try:
                yield parse_rule(cast("dict[str, Any]", table), tier=Tier.USER, place=place).rule
            except RuleError:
                continue


def _says_as_much(saved: PolicyRule, rule: PolicyRule) -> bool:
    """Does a saved rule decide the same, for the same calls and wherever `rule` does, but for the
    command prefixes?"""
    return (
        saved.decision is rule.decision
        and saved.priority >= rule.priority
        and saved.tool_names == rule.tool_names
        and saved.mcp_name == rule.mcp_name
        and saved.args_pattern == rule.args_pattern
        and saved.command_regex == rule.command_regex
        and saved.command_class == rule.command_class
        and saved.paths == rule.paths
        and saved.interactive in {None, rule.interactive}
        and saved.allow_redirection >= rule.allow_redirection
        and _modes(saved) >= _modes(rule)
    )


def _modes(rule: PolicyRule) -> frozenset[ApprovalMode]:
    return frozenset(rule.modes or ApprovalMode)


def _same(prefix: str, known: str) -> bool:
    """Are these the same words? A shorter prefix does not stand for a longer one, which names
    more. Blanks between quotes are not between words."""
    if any(mark in prefix for mark in "'\"\\"):
        return prefix == known
    return prefix.split() == known.split()
