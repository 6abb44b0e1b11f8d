"""One [[rule]] table to a rule, or to what is wrong with it, and back (POL-02); its examples."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

import msgspec

from alhena.config.documents import read_value
from alhena.near_names import near_name
from alhena.policy.model import (
    MAX_PRIORITY,
    SHELL_NAMES,
    ApprovalMode,
    CommandClass,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    RuleError,
    Tier,
    check_pattern,
    is_shell_name,
)
from alhena.values import Value

_EXAMPLES = ("match", "not_match")
_KEYS = ("tool", "args", "server", "mode", "interactive")
_FORMS = (
    "Write a shell command for a shell rule, the arguments as a JSON object, or a table "
    '{ tool = "NAME", args = { … } }.'
)


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One example: a call that the rule is meant to decide (`field` is match), or not to
    (not_match). `text` is how it is written."""

    field: str
    text: str
    call: PolicyCall
    context: PolicyContext


def parse_examples(table: Mapping[str, Any], rule: PolicyRule) -> tuple[Example, ...]:
    """The examples of a `[[rule]]` table. Raises RuleError for one that is none."""
    return tuple(
        _example(field, item, rule) for field in _EXAMPLES for item in _items(table.get(field))
    )


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from cast("list[Any]", value)
    elif value is not None:
        yield value


def _example(field: str, item: Any, rule: PolicyRule) -> Example:
    if isinstance(item, str):
        if _is_shell_rule(rule):
            return _of(field, item, {"args": {"command": item}}, rule)
        try:
            args = msgspec.json.decode(item.encode("utf-8"), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            shown = _example_text(item)
            message = f"example {shown} is not a JSON object, and the rule is not for commands"
            raise RuleError(field, message, _FORMS) from error
        return _of(field, item, {"args": args}, rule)
    if not isinstance(item, Mapping):
        raise RuleError(
            field, f"example {_example_text(item)} is neither a string nor a table", _FORMS
        )
    table = cast("Mapping[str, Any]", item)
    unknown = next((key for key in table if key not in _KEYS), None)
    if unknown is not None:
        known = ", ".join(_KEYS)
        raise RuleError(field, f"example has the key {unknown!r}; there are {known}", _FORMS)
    return _of(field, table, table, rule)


def _of(field: str, written: Any, table: Mapping[str, Any], rule: PolicyRule) -> Example:
    return Example(
        field=field,
        text=_example_text(written),
        call=_call(field, table, rule),
        context=_context(field, table, rule),
    )


def _call(field: str, table: Mapping[str, Any], rule: PolicyRule) -> PolicyCall:
    tool = _value(field, table, "tool", str) or _only_tool(rule)
    if tool is None:
        message = f"example {_example_text(dict(table))} does not say which tool is called"
        raise RuleError(field, message, 'Write { tool = "NAME", args = { … } }.')
    server = _value(field, table, "server", str)
    if server is None and rule.mcp_name != "*":
        server = rule.mcp_name
    args: dict[str, Any] = _value(field, table, "args", dict) or {}
    if server is not None:
        return PolicyCall(
            names=(tool, f"{server}__{tool}", f"mcp_{server}_{tool}"), args=args, server_name=server
        )
    names = dict.fromkeys((tool, *(SHELL_NAMES if is_shell_name(tool) else ())))
    return PolicyCall(names=tuple(names), args=args)


def _context(field: str, table: Mapping[str, Any], rule: PolicyRule) -> PolicyContext:
    """The circumstances of the example; where it says nothing, those the rule is for."""
    mode = _value(field, table, "mode", ApprovalMode)
    interactive = _value(field, table, "interactive", bool)
    if mode is None:
        mode = rule.modes[0] if rule.modes else ApprovalMode.DEFAULT
    if interactive is None:
        interactive = rule.interactive is not False
    return PolicyContext(mode=mode, interactive=interactive, subagent=rule.subagent)


def _value(field: str, table: Mapping[str, Any], key: str, kind: Any) -> Any:
    try:
        return None if table.get(key) is None else read_value(table[key], kind)
    except msgspec.ValidationError as error:
        raise RuleError(field, f"example: {key} cannot be {table[key]!r}", _FORMS) from error


def _only_tool(rule: PolicyRule) -> str | None:
    """The tool that an example means when it names none."""
    if _is_shell_rule(rule):
        return next(name for name in rule.tool_names if is_shell_name(name))
    return next((name for name in rule.tool_names if not name.endswith("*")), None)


def _is_shell_rule(rule: PolicyRule) -> bool:
    return rule.mcp_name is None and any(map(is_shell_name, rule.tool_names))


def _example_text(value: Any) -> str:
    """An example on one line, control characters escaped."""
    if isinstance(value, str):
        return repr(value)
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")


SHELL = "run_shell_command"
_CONDITIONS = ("toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex",
               "commandClass", "paths", "modes", "interactive", "subagent")  # fmt: skip
_FIELDS = frozenset(
    {*_CONDITIONS, "decision", "priority", "allowRedirection", "allow_redirection", "denyMessage",
     "deny_message"}
)  # fmt: skip
_NOTES = frozenset({"name", "description", *_EXAMPLES})
_REMARKS = frozenset(
    {"author", "comment", "comments", "id", "note", "notes", "reason", "reviewed", "source", "tags",
     "title"}
)  # fmt: skip
_UNSUPPORTED = frozenset({"toolAnnotations"})
_DECISIONS = 'Write decision = "allow", "deny" or "ask_user".'
_PRIORITIES = f"Write an integer from 0 to {MAX_PRIORITY}."
_MODES = "Write an array of {}.".format(", ".join(f'"{mode}"' for mode in ApprovalMode))

_IN_QUOTES = "Write it in quotes, or leave it out."

_Texts = Annotated[list[str], msgspec.Meta(min_length=1)]
_Modes = Annotated[list[ApprovalMode], msgspec.Meta(min_length=1)]
_Priority = Annotated[int, msgspec.Meta(ge=0, le=MAX_PRIORITY)]


class ParsedRule(Value, frozen=True):
    """A rule, its examples, and warnings as (field, message) pairs."""

    rule: PolicyRule
    examples: tuple[Example, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()


class RulePlace(msgspec.Struct, frozen=True):
    """The place of a rule: `number` and `line` count from 1."""

    file: str
    number: int
    line: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.file}{line}, rule {self.number}"


def parse_rule(table: Mapping[str, Any], *, tier: Tier, place: RulePlace) -> ParsedRule:
    """The rule a table describes. Raises RuleError. The examples are read, not tried."""
    decision = read_field(table, "decision", PolicyOutcome, _DECISIONS, needed=True)
    warnings = _unknown_keys(table, decision)
    prefixes = _prefixes(table)
    pattern = _pattern(table, "commandRegex")
    commands = read_field(table, "commandClass", CommandClass, 'There is "read-only".')
    shell_only = next(
        (key for key in ("commandPrefix", "commandRegex", "commandClass") if key in table), None
    )
    rule = PolicyRule(
        decision=decision,
        priority=read_field(table, "priority", _Priority, _PRIORITIES, needed=True),
        tier=tier,
        tool_names=_tool_names(table, shell_only),
        mcp_name=_text(table, "mcpName"),
        args_pattern=_pattern(table, "argsPattern"),
        command_prefixes=prefixes,
        command_regex=pattern,
        command_class=commands,
        paths=_paths(table),
        modes=tuple(dict.fromkeys(read_field(table, "modes", _Modes, _MODES) or ())),
        interactive=_flag(table, "interactive"),
        subagent=_text(table, "subagent"),
        allow_redirection=bool(_flag(table, _spelling(table, "allowRedirection"))),
        deny_message=_text(table, _spelling(table, "denyMessage")),
        source=str(place),
        file=place.file,
        line=place.line,
    )
    _check_together(rule, shell_only)
    examples = parse_examples(table, rule)
    return ParsedRule(rule, examples, (*warnings, *_useless_prefixes(rule)))


def read_field(
    table: Mapping[str, Any], field: str, kind: Any, remedy: str, *, needed: bool = False
) -> Any:
    """The value of a field as the type `kind`; None for one that is missing and not `needed`.
    Raises RuleError."""
    key = field.rpartition(".")[2]
    value = table.get(key)
    if value is None and not needed:
        return None
    if value is None:
        raise RuleError(field, "is missing", remedy)
    try:
        return read_value(value, kind)
    except msgspec.ValidationError as error:
        raise RuleError(field, f"cannot be {value!r}", remedy) from error


def _paths(table: Mapping[str, Any]) -> tuple[str, ...]:
    """gitignore patterns; a line that means nothing to git would restrict or allow nothing."""
    patterns = _texts(table, "paths")
    for number, pattern in enumerate(patterns):
        if "\n" in pattern or "\r" in pattern or "\0" in pattern:
            reason, remedy = "contains a line break or a NUL", "Write one pattern an entry."
        elif pattern.startswith("#"):
            reason, remedy = "is a comment", "Write \\# for a name that begins so."
        elif pattern.startswith("!") and number == 0:
            reason, remedy = "takes back nothing", "Put it after the pattern it is to take from."
        else:
            continue
        raise RuleError("paths", f"{pattern!r} {reason}", remedy)
    return patterns


def _text(table: Mapping[str, Any], field: str) -> str | None:
    value: str | None = read_field(table, field, str, _IN_QUOTES)
    return None if value is None else _texts(table, field)[0]


def _prefixes(table: Mapping[str, Any]) -> tuple[str, ...]:
    """The prefixes of commands; an empty one means any command, as no prefix does."""
    field = "commandPrefix"
    value: str | list[str] | None = read_field(table, field, str | list[str], _IN_QUOTES)
    given = [value] if isinstance(value, str) else value or []
    return () if "" in given else _texts(table, field)


def _texts(table: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value: str | list[str] | None = read_field(table, field, str | _Texts, _IN_QUOTES)
    texts = (value,) if isinstance(value, str) else tuple(value or ())
    if not all(text.strip() for text in texts):
        raise RuleError(field, f"cannot be {value!r}", _IN_QUOTES)
    return texts


def _flag(table: Mapping[str, Any], field: str) -> bool | None:
    return read_field(table, field, bool, "Write true or false, without quotes.")


def _spelling(table: Mapping[str, Any], field: str) -> str:
    """The spelling the table uses: `allow_redirection` is `allowRedirection`."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in field)
    if field in table and snake in table:
        raise RuleError(field, f"is given twice, as {field} and as {snake}", "Keep one of them.")
    return snake if snake in table else field


def _tool_names(table: Mapping[str, Any], shell_only: str | None) -> tuple[str, ...]:
    names = _texts(table, "toolName")
    if shell_only is not None:
        strange = [name for name in names if not is_shell_name(name)]
        if strange:
            raise RuleError(
                "toolName",
                f"{strange[0]!r} is next to {shell_only}, which looks at {SHELL} alone",
                f"Leave toolName out or name {SHELL}; write a second rule for other tools.",
            )
        return names or (SHELL,)
    for name in names:
        if "*" in name[:-1]:
            message = f"{name!r} has a wildcard that is not at its end"
            raise RuleError("toolName", message, "Name the tools, or use NAME*, mcpName or *.")
    if not names and table.get("mcpName") is None:
        raise RuleError("toolName", "is missing", 'Name the tools it is for, or "*" for all.')
    return names


def _pattern(table: Mapping[str, Any], field: str) -> str | None:
    pattern = _text(table, field)
    if pattern is not None:
        try:
            check_pattern(pattern)
        except ValueError as error:
            remedy = "Correct it; in '…' backslashes stand for themselves."
            raise RuleError(field, str(error), remedy) from error
    return pattern


def _check_together(rule: PolicyRule, shell_only: str | None) -> None:
    conditions = {
        "commandPrefix": rule.command_prefixes,
        "commandRegex": rule.command_regex,
        "commandClass": rule.command_class,
    }
    given = [key for key, value in conditions.items() if value]
    if len(given) > 1:
        raise RuleError(given[1], f"cannot stand beside {given[0]}", "Write two rules.")
    if shell_only is not None and rule.mcp_name is not None:
        message = f"looks at {SHELL} alone, and mcpName names a server's tools"
        raise RuleError(shell_only, message, "Leave one of them out.")
    if rule.command_class is not None and rule.allow_redirection:
        message = f"cannot stand beside commandClass: {rule.command_class} commands write nothing"
        raise RuleError("allowRedirection", message, "Leave it out.")
    shell_alone = bool(rule.tool_names) and SHELL_NAMES.issuperset(rule.tool_names)
    if rule.paths and shell_alone and not given and rule.decision is PolicyOutcome.ALLOW:
        message = "cannot allow commands: which files a command touches is not known"
        raise RuleError("paths", message, "Name the commands with commandPrefix or commandClass.")


def _useless_prefixes(rule: PolicyRule) -> tuple[tuple[str, str], ...]:
    if rule.decision is not PolicyOutcome.ALLOW or not rule.command_prefixes:
        return ()
    from alhena.shell.prefix import useless_prefix

    reasons = {prefix: useless_prefix(prefix) for prefix in rule.command_prefixes}
    return tuple(
        ("commandPrefix", f"{prefix!r} allows nothing: {reason}")
        for prefix, reason in reasons.items()
        if reason is not None
    )


def _unknown_keys(table: Mapping[str, Any], decision: PolicyOutcome) -> tuple[tuple[str, str], ...]:
    """Warnings for keys that mean nothing here. An allow without something that was meant to limit
    it would be broader than written, so there a key that may be that is an error."""
    warnings: list[tuple[str, str]] = []
    for key in table:
        if key in _FIELDS or key in _NOTES:
            continue
        near = _nearest(key)
        hint = f"; did you mean {near}?" if near else ""
        message = "is not supported" if key in _UNSUPPORTED else f"is no field of a rule{hint}"
        harmless = key in _REMARKS or near in _FIELDS.difference(_CONDITIONS)
        if decision is PolicyOutcome.ALLOW and not harmless:
            reason = f"{message} (without it the rule would allow more than it says)"
            raise RuleError(key, reason, _remedy(key))
        warnings.append((key, f"{message}; it is ignored"))
    return tuple(warnings)


def _remedy(key: str) -> str:
    match key:
        case "safety_checker":
            return "Write a [[safety_checker]] of its own, with the conditions of the rule."
        case "enabled" | "disabled" | "active":
            return "Remove the rule if it is not to hold, else this key."
        case _:
            return "Correct the key, or remove it if the rule is meant so."


def _nearest(key: str) -> str | None:
    flat = {field.replace("_", "").lower(): field for field in sorted(_FIELDS)}
    flat["tool"] = flat["tools"] = "toolName"
    flat["mode"] = "modes"
    near = near_name(key.replace("_", ""), flat)
    return flat[near] if near else None


def rule_fields(rule: PolicyRule) -> dict[str, Any]:
    """The fields that the rule sets, under the keys of a `[[rule]]` table."""
    fields: dict[str, Any] = {
        "toolName": list(rule.tool_names) or None,
        "mcpName": rule.mcp_name,
        "argsPattern": rule.args_pattern,
        "commandPrefix": list(rule.command_prefixes) or None,
        "commandRegex": rule.command_regex,
        "commandClass": None if rule.command_class is None else str(rule.command_class),
        "paths": list(rule.paths) or None,
        "decision": str(rule.decision),
        "priority": rule.priority,
        "modes": [str(mode) for mode in rule.modes] or None,
        "interactive": rule.interactive,
        "subagent": rule.subagent,
        "allowRedirection": rule.allow_redirection or None,
        "denyMessage": rule.deny_message,
    }
    return {key: value for key, value in fields.items() if value is not None}
