"""The ten requests that the demo model understands, and the tool calls they become."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

LONGEST = 2000
"""Characters of a prompt that are read as a request."""

HELP = """I understand these requests, also several in one prompt (`; ` between them):

- list FOLDER · read FILE · find PATTERN · search for "TEXT" in FOLDER
- what is this project?
- write "TEXT" to FILE · replace "OLD" with "NEW" in FILE
- run `COMMAND` · remember that FACT
- call TOOL with NAME=VALUE (or a JSON object)"""


class Call(msgspec.Struct, frozen=True):
    """A tool call to make. The values of `texts` are not yet of the types the tool declares."""

    name: str
    args: dict[str, Any]
    texts: dict[str, str] = {}


_QUOTED = r"`[^`]*`|\"[^\"]*\"|“[^”]*”|'[^']*'(?!\w)"
_VERB = (
    r"list|ls|show|read|cat|open|find|search|grep|what|explain|describe|write|save|create|replace"
    r"|run|execute|remember|call|use"
)
_SEAM = rf"\s*(?:;|\n|[.?!](?=\s|$)|,?\s+(?:and\s+)?then\s|,?\s+and\s+(?={_VERB}\b))"
_CLAUSE = re.compile(rf"(?:{_QUOTED}|\{{[^{{}}]*\}}|(?!{_SEAM}).)+", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:(?:please|now|first|next|then|and|also|hi|hello|ok|(?:can|could|would)\s+you)[\s,]+)+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:[\s,]+please)?[\s,:.!?]*$", re.IGNORECASE)
_HERE = r"this\s+(?:folder|directory)|the\s+(?:current\s+)?(?:folder|directory)|here"
_PATH = rf"(?P<path>{_QUOTED}|{_HERE}|\S+)"
_IN = rf"(?:\s+(?:in|under|within)\s+{_PATH})?"


def _list(found: dict[str, str]) -> list[Call]:
    return [Call("list_directory", {"path": _path(found)})]


def _read(found: dict[str, str]) -> list[Call]:
    return [Call("read_file", {"absolute_path": _path(found)})]


def _find(found: dict[str, str]) -> list[Call]:
    pattern = _unquoted(found["pattern"])
    return [Call("glob", {"pattern": pattern if "/" in pattern else f"**/{pattern}"} | _at(found))]


def _search(found: dict[str, str]) -> list[Call]:
    literal = re.sub(r"[][.^$*+?{}\\|()]", r"\\\g<0>", _unquoted(found["text"]))
    return [Call("search_file_content", {"pattern": literal} | _at(found))]


def _explain(_found: dict[str, str]) -> list[Call]:
    return [
        Call("list_directory", {"path": "."}),
        Call("read_file", {"absolute_path": "README.md"}),
    ]


def _write(found: dict[str, str]) -> list[Call]:
    text = _unquoted(found["text"]) + "\n"
    return [Call("write_file", {"file_path": _path(found), "content": text})]


def _replace(found: dict[str, str]) -> list[Call]:
    old, new = _unquoted(found["old"]), _unquoted(found["new"])
    return [Call("replace", {"file_path": _path(found), "old_string": old, "new_string": new})]


def _run(found: dict[str, str]) -> list[Call]:
    return [Call("run_shell_command", {"command": _unquoted(found["command"])})]


def _remember(found: dict[str, str]) -> list[Call]:
    return [Call("save_memory", {"fact": found["fact"]})]


def _call(found: dict[str, str]) -> list[Call]:
    given = found.get("args", "")
    if given.startswith("{"):
        try:
            return [Call(found["tool"], msgspec.json.decode(given, type=dict[str, Any]))]
        except msgspec.MsgspecError:
            return []
    pairs = re.findall(rf"(\w+)\s*=\s*({_QUOTED}|[^\s,]+)", given)
    if given and not pairs:
        return []
    return [Call(found["tool"], {}, {key: _unquoted(value) for key, value in pairs})]


_RULES: tuple[tuple[str, Callable[[dict[str, str]], list[Call]]], ...] = (
    (r"(?:run|execute)\s+(?P<command>.+)", _run),
    (r"remember\s+(?:that\s+)?(?P<fact>.+)", _remember),
    (r"(?:call|use)\s+(?:the\s+tool\s+)?(?P<tool>[\w.-]+)(?:\s+with\s+(?P<args>.+))?", _call),
    (
        (
            r"(?:what\s+is|what's|explain|describe|summari[sz]e)\s+(?:this|the)\s+"
            r"(?:project|repository|repo|code|codebase)\b.*"
        ),
        _explain,
    ),
    (
        rf"replace\s+(?P<old>{_QUOTED})\s+(?:with|by)\s+(?P<new>{_QUOTED})\s+in\s+{_PATH}",
        _replace,
    ),
    (rf"(?:write|save)\s+(?P<text>{_QUOTED})\s+(?:in)?to\s+{_PATH}", _write),
    (
        (
            rf"(?:create|write|make)\s+(?:an?\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+)?{_PATH}"
            rf"\s+(?:with|containing|that\s+says)\s+(?P<text>{_QUOTED})"
        ),
        _write,
    ),
    (rf"(?:search|grep)\s+(?:for\s+)?(?P<text>{_QUOTED}|\S+){_IN}", _search),
    (
        (
            r"(?:find|glob)\s+(?:all\s+)?(?:files?\s+)?(?:(?:named|called|matching)\s+)?"
            rf"(?P<pattern>{_QUOTED}|\S+)(?:\s+files)?{_IN}"
        ),
        _find,
    ),
    (rf"(?:(?:list|ls)|show\s+files\s+in|what(?:'s|\s+is)\s+in)(?:\s+{_PATH})?", _list),
    (rf"(?:list|show)\s+(?:all\s+|me\s+)?(?:the\s+)?files{_IN}", _list),
    (rf"(?:read|show|cat|open)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_PATH}", _read),
)


def parse(prompt: str) -> tuple[tuple[Call, ...], tuple[str, ...]]:
    """The calls a prompt asks for, in order, and the clauses that no rule covers.

    Of several paragraphs the last one is the request: piped text comes before it.
    """
    request = re.split(r"\n[ \t\r]*\n", prompt.strip())[-1][:LONGEST]
    calls: list[Call] = []
    unknown: list[str] = []
    for match in _CLAUSE.finditer(request):
        clause = _TAIL.sub("", _LEAD.sub("", match[0].strip(), count=1))
        if not clause:
            continue
        made = _understood(clause)
        calls += made
        unknown += [] if made else [clause]
    return tuple(calls), tuple(unknown)


def _understood(clause: str) -> list[Call]:
    for pattern, make in _RULES:
        match = re.fullmatch(pattern, clause, re.IGNORECASE)
        if match is not None:
            return make({key: value for key, value in match.groupdict().items() if value})
    return []


def _path(found: dict[str, str]) -> str:
    path = _unquoted(found.get("path", "."))
    return "." if re.fullmatch(_HERE, path, re.IGNORECASE) else path


def _at(found: dict[str, str]) -> dict[str, str]:
    return {"path": _path(found)} if "path" in found else {}


def _unquoted(text: str) -> str:
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text
