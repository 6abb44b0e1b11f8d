"""The rule that "always" saves for a command, and approvals that a person gave permanently.

Those are rules at the end of the user's auto-saved.toml.
"""

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from alhena.errors import ConfigError
from alhena.policy.bash.hazards import hazard
from alhena.policy.bash.model import Analysis, Effect, Part, Word
from alhena.policy.bash.options import base_name, first_operands, is_option, split_settings
from alhena.policy.bash.prefix import allows
from alhena.policy.bash.reach import names_command
from alhena.policy.load import MAX_FILE_BYTES
from alhena.policy.model import ApprovalMode, PolicyRule, RuleError, Tier
from alhena.policy.parse import RulePlace, parse_rule, rule_fields
from alhena.policy.programs import global_options, interpreter, listed, main_name, narrow, wrapper

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
    """An empty file that no other user can read, to be replaced by the rules."""
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


_NEED_NO_RULE = frozenset({"true", "false", ":", "exit", "break", "continue"})
_PROJECT_RUNNERS = frozenset({"uv run", "poetry run", "bundle exec"})
_TASKS = frozenset({"make", "gradle", "mvn"})
"""Programs that do one task after the other; a rule names all of them."""


def always_prefix(part: Part) -> tuple[str, ...] | None:
    """The words a rule would begin with that allows `part` from now on; None when any such rule
    would be too broad, or would not allow it.

    Never an interpreter, a wrapper, a shell, a package runner, or a program with subcommands alone.
    """
    if not part.words or any(r.effect is Effect.WRITE for r in part.redirections):
        return None
    settings: list[str] = []
    for assignment in part.assignments:
        if not assignment.value.literal or _steers(assignment.name):
            return None
        settings.append(f"{assignment.name}={assignment.value.text}")
    count = _length(part.words)
    if count is None or not all(word.literal for word in part.words[:count]):
        return None
    words = (*settings, *(word.text for word in part.words[:count]))
    beginning = Part(text=part.text, words=part.words[:count])
    if hazard(beginning, ()) is not None or hazard(part, words) is not None:
        return None
    if not allows(prefix_text(words), part):
        return None
    return words


def always_prefixes(analysis: Analysis) -> tuple[str, ...] | None:
    """The prefixes that "always" would save for a whole command line, each as a rule's
    `commandPrefix`; None when one of its parts has none, or what runs is in doubt."""
    if not analysis.complete or analysis.doubts:
        return None
    found: dict[str, None] = {}
    for part in analysis.parts:
        if _needs_no_rule(part):
            continue
        words = always_prefix(part)
        if words is None:
            return None
        found.setdefault(prefix_text(words))
    return tuple(found) or None


def prefix_text(words: tuple[str, ...]) -> str:
    """Words as the text of a `commandPrefix`, quoted where they have to be."""
    settings, rest = split_settings(words)
    quoted = [name + "=" + shlex.quote(value) for name, _, value in _divided(settings)]
    return " ".join([*quoted, *(shlex.quote(word) for word in rest)])


def _divided(settings: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [setting.partition("=") for setting in settings]


def root_commands(analysis: Analysis) -> tuple[str, ...]:
    """The command word of every part as it is written or read, once each, in order of appearance,
    those inside substitutions included."""
    found: dict[str, None] = {}
    for part in analysis.parts:
        if part.words:
            head = part.words[0]
            found.setdefault(head.text if head.literal else head.source or head.text)
    return tuple(found)


def _steers(variable: str) -> bool:
    """Does this variable change which program runs, or how?"""
    beginnings = (
        "LD_",
        "DYLD_",
        "PYTHON",
        "PERL",
        "RUBY",
        "NODE_OPT",
        "NODE_PATH",
        "JAVA_TOOL",
        "_",
    )
    return (
        names_command(variable)
        or variable.startswith(beginnings)
        or variable.endswith(("PATH", "FLAGS", "OPTIONS", "OPTS", "PROXY", "HOME", "CONFIG"))
        or variable in {"IFS", "CC", "CXX", "LD", "AR", "RUSTC", "CDPATH", "SHELLOPTS", "BASHOPTS"}
    )


def _needs_no_rule(part: Part) -> bool:
    if not part.words or part.assignments or not part.words[0].literal:
        return False
    if any(r.effect is Effect.WRITE for r in part.redirections):
        return False
    name = part.words[0].text
    return name in _NEED_NO_RULE or (name == "cd" and all(word.literal for word in part.words))


def _length(words: tuple[Word, ...]) -> int | None:
    """The number of words a narrow prefix of this command has."""
    head = words[0]
    if not head.literal or not head.text:
        return None
    name = base_name(head.text)
    if interpreter(name) is not None:
        texts = [word.text for word in words[1:3]]
        known = listed("modules")
        module = name.startswith("python") and texts[:1] == ["-m"] and texts[-1] in known
        return 3 if module else None
    if _runs_others(name) or name in listed("too_broad") or _compiles(name):
        return None
    if name.startswith(("mkfs", "git-", "qemu-")):
        return None
    if name in listed("single"):
        return 1
    if narrow(main_name(name)) is not None:
        return _with_subcommand(words, main_name(name))
    return _unknown_length(words)


def _compiles(name: str) -> bool:
    """Is it a compiler, perhaps with a version behind or the machine before its name?"""
    return name.rstrip("0123456789.-").rsplit("-", 1)[-1] in listed("compilers")


def _runs_others(name: str) -> bool:
    bare = name.rstrip("0123456789.-")
    lists = ("shells", "code_runners", "evaluators", "opaque", "mentioning", "code_in_data")
    harmless = name in {"[", "test", "printf"}
    listed_there = any(name in listed(each) for each in lists) and not harmless
    return listed_there or bare in listed("code_runners") or wrapper(name) is not None


def _unknown_length(words: tuple[Word, ...]) -> int | None:
    """Of an unknown program: with its first word when that looks like a subcommand, else
    all of its words. Of its name alone only when that is a path: a program of the project."""
    if len(words) == 1:
        return 1 if "/" in words[0].text else None
    first = words[1]
    bare = first.text.replace("-", "").replace(":", "").replace("_", "")
    if first.literal and bare.isalnum() and first.text[:1].isalpha():
        return None if first.text.partition(":")[0] in listed("running") else 2
    return len(words) if all(word.literal for word in words) else None


def _with_subcommand(words: tuple[Word, ...], name: str) -> int | None:
    path, start = name, 0
    while True:
        known = global_options(path)
        found = first_operands(words[start:], known, 1)
        if not found or not words[start + found[0]].literal:
            return None
        start += found[0]
        text = words[start].text
        if name in _TASKS:
            return _all_tasks(words, name)
        if not _is_narrow(path, text):
            return None
        path = f"{path} {text}"
        if path in _PROJECT_RUNNERS:
            rest = words[start + 1 :]
            inner = _length(rest) if rest and not is_option(rest[0]) else None
            return None if inner is None else start + 1 + inner
        if wrapper(path) is not None:
            return None
        if narrow(path) is None:
            return start + 1


def _is_narrow(path: str, word: str) -> bool:
    """Does a rule stay narrow that ends with this word?"""
    allowed = narrow(path) or frozenset()
    return word in allowed or ("*" in allowed and "=" not in word)


def _all_tasks(words: tuple[Word, ...], name: str) -> int | None:
    """The words up to the last target; none may be more than a target."""
    found = first_operands(words, global_options(name), len(words))
    for at in found:
        if not words[at].literal or not _is_narrow(name, words[at].text):
            return None
    return found[-1] + 1
