"""The rules for requests that change something: replace, write, run, remember, call a tool."""

import re
from typing import Any, cast

import msgspec

from alhena.models.rehearsal.intents import (
    CallTool,
    Intent,
    Remember,
    ReplaceText,
    RunCommand,
    WriteFile,
)
from alhena.models.rehearsal.rule import Rule
from alhena.models.rehearsal.targets import (
    PRONOUN,
    QUOTED,
    TARGET,
    is_file_name,
    path_of,
    quoted,
    unquote,
)

_FILE = rf"(?:the\s+)?(?:file\s+)?(?P<file>{TARGET}|{PRONOUN})"
_OLD = (
    r"(?:(?:all|every|each|the|any)\s+)*(?:(?:occurrences?|instances?)\s+of\s+)?"
    rf"(?:the\s+)?(?:(?:word|text|string|line|name|phrase)\s+)?(?P<old>{QUOTED}|.+?)"
)
_CONTENT = (
    r",?\s*(?:with\s+(?:the\s+)?(?:following\s+)?(?:text|contents?|lines?|words?)|with|containing"
    r"|(?:that|which)\s+(?:says|contains|reads|holds)|saying|reading)(?:\s+(?:the\s+)?(?:text|words?)\b)?"
)
_CREATE = (
    r"(?:create|write|make|add|save|overwrite|touch)\s+(?:an?\s+|the\s+)?(?:new\s+|empty\s+|blank\s+)*"
    r"(?:text\s+)?(?:file\s+)?(?:(?:called|named)\s+)?"
)


def _path(token: str, last: str) -> str:
    return last if re.fullmatch(PRONOUN, token, re.IGNORECASE) else path_of(token)


def _file(match: re.Match[str], last: str) -> str:
    """The file to change; "" unless the words leave no doubt that they name one."""
    path = _path(match["file"], last)
    said = re.search(
        r"\bfile\s+(?:(?:called|named)\s+)?$", match.string[: match.start("file")], re.IGNORECASE
    )
    return path if is_file_name(path) or quoted(match["file"]) or said else ""


def _replace(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
    old, path = unquote(match["old"]), _file(match, last)
    new = unquote(match["new"])
    return (ReplaceText(old, new, path),) if old and path else None


def _remove(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
    old, path = unquote(match["old"]), _file(match, last)
    return (ReplaceText(old, "", path),) if old and path else None


def _write(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
    path, text = _file(match, last), match["text"]
    if not path or re.fullmatch(PRONOUN, text.strip(), re.IGNORECASE):
        return None
    return (WriteFile(path, unquote(text)),)


def _touch(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    path = _file(match, "")
    return (WriteFile(path, ""),) if path else None


def _run_quoted(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    command, directory = unquote(match["command"]), match["directory"]
    return (RunCommand(command, path_of(directory or "")),) if command.strip() else None


def _run(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    command = match["command"].strip()
    if re.match(r"(?:the|an?|my|our|this|some|it|all)\b", command, re.IGNORECASE):
        return None  # "run the tests" names no command
    if re.search(r"\w\.$", command):
        command = command[:-1]
    return (RunCommand(command),)


def _remember(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    fact = unquote(match["fact"])
    return (Remember(fact),) if fact else None


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return unquote(text)


def _arguments(text: str) -> dict[str, Any] | None:
    """A JSON object, or pairs like `a=1, city="Rome"`; None when the text is neither."""
    if text.startswith("{"):
        decoded = _value(text)
        return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else None
    pair = rf"([A-Za-z_]\w*)\s*[=:]\s*({QUOTED}|\[[^\]]*\]|\S+?)"
    if not re.fullmatch(rf"{pair}(?:(?:\s*,\s*|\s+and\s+|\s+){pair})*", text):
        return None
    return {found[1]: _value(found[2]) for found in re.finditer(rf"{pair}(?=\s*,|\s|$)", text)}


def _call(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    text = (match["args"] or "").strip()
    if not text:
        return (CallTool(match["name"], {}),)
    args = _arguments(text)
    return (CallTool(match["name"], args, "" if args is not None else unquote(text)),)


def _nothing(_match: re.Match[str], _last: str) -> tuple[Intent, ...]:
    return ()


RULES: tuple[Rule, ...] = (
    Rule(
        r"(?:tell|show|give)\s+me\s+(?:what\s+(?:you\s+(?:find|found|see|did)|it\s+(?:says|prints))|the\s+"
        r"(?:output|results?|exit\s+code|answer|outcome))|report(?:\s+back)?",
        _nothing,
    ),
    Rule(
        r"(?:(?:remember|memori[sz]e|keep\s+in\s+mind|save\s+to\s+memory)(?:\s*:|\s+that\b)?"
        r"|note(?:\s*:|\s+that\b))\s+(?P<fact>.+)",
        _remember,
        free=True,
    ),
    Rule(
        r"(?:run|execute|start)(?:\s+(?:the\s+)?(?:shell\s+)?command)?\s*:?\s*"
        rf"(?P<command>{QUOTED})(?:\s+in\s+(?:the\s+)?(?:(?:folder|directory)\s+)?"
        rf"(?P<directory>{TARGET})(?:\s+(?:folder|directory))?)?",
        _run_quoted,
    ),
    Rule(
        r"(?:run|execute)(?:\s+(?:the\s+)?(?:shell\s+)?command)?(?:\s*:\s*|\s+)(?P<command>.+)",
        _run,
        free=True,
    ),
    Rule(
        rf"(?:replace|substitute|swap)\s+{_OLD}\s+(?:with|by|for)\s+(?P<new>{QUOTED}|.+?)"
        rf"\s+(?:in|inside|within)\s+{_FILE}",
        _replace,
    ),
    Rule(
        rf"(?:change|rename|turn)\s+{_OLD}\s+(?:to|into)\s+(?P<new>{QUOTED}|.+?)"
        rf"\s+(?:in|inside|within)\s+{_FILE}",
        _replace,
    ),
    Rule(
        rf"in\s+{_FILE}\s*,?\s+(?:replace|substitute|swap|change)\s+{_OLD}\s+(?:with|by|to|for)"
        rf"\s+(?P<new>{QUOTED}|.+?)",
        _replace,
    ),
    Rule(
        r"(?:remove|delete|drop)\s+(?:(?:all|every|each|the|any)\s+)*(?:occurrences?\s+of\s+)?"
        rf"(?:(?:word|text|string|line|phrase)\s+)?(?P<old>{QUOTED})\s+from\s+{_FILE}",
        _remove,
    ),
    Rule(
        rf"{_CREATE}(?P<file>{TARGET}){_CONTENT}\s*:?\s*(?P<text>{QUOTED})",
        _write,
    ),
    Rule(
        r"(?:write|save|put)\s+(?:the\s+)?(?:(?:text|words?)\s+)?"
        rf"(?P<text>{QUOTED})\s+(?:to|into|in)\s+(?:an?\s+)?(?:new\s+)?{_FILE}",
        _write,
    ),
    Rule(rf"{_CREATE}(?P<file>{TARGET}){_CONTENT}(?:\s*:\s*|\s+)(?P<text>.+)", _write, free=True),
    Rule(
        r"(?:write|save|put)\s+(?:the\s+)?(?:(?:text|words?)\s+)?"
        rf"(?P<text>.+?)\s+(?:to|into|in)\s+(?:an?\s+)?(?:new\s+)?{_FILE}",
        _write,
    ),
    Rule(rf"{_CREATE}(?P<file>{TARGET})", _touch),
    Rule(
        r"(?:call|use|invoke)\s+(?:the\s+)?(?:tool\s+|function\s+)?[`\"']?(?P<name>[A-Za-z_][\w.-]*)[`\"']?"
        r"(?:\s+(?:tool|function))?(?:\s*:|\s+(?:with|on|for|using)(?:\s+(?:the\s+)?arg(?:ument)?s)?"
        r"|(?=\s*\{))?(?:\s*(?P<args>.+))?",
        _call,
        free=True,
    ),
)
