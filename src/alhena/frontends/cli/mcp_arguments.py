"""The arguments of `alhena mcp add` and its like: options stand anywhere, and what is no option of
ours is the server's."""

from typing import Any

import msgspec

from alhena.errors import UsageError

SCOPES = ("user", "project")
TRANSPORTS = ("stdio", "sse", "http")
_REMEDY = "See alhena mcp --help."
_OPTIONS = {
    "-s": "scope",
    "--scope": "scope",
    "-t": "transport",
    "--transport": "transport",
    "--type": "transport",
    "-e": "env",
    "--env": "env",
    "-H": "header",
    "--header": "header",
    "--timeout": "timeout",
    "--description": "description",
    "--include-tools": "include_tools",
    "--exclude-tools": "exclude_tools",
}
_FLAGS = {"--trust": "trust", "-d": "debug", "--debug": "debug"}


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is to be added; `timeout` is in milliseconds. The repr shows no variable and
    no header."""

    name: str
    target: str
    args: tuple[str, ...]
    scope: str
    transport: str
    env: dict[str, str]
    headers: dict[str, str]
    timeout: int | None
    trust: bool
    description: str | None
    include_tools: tuple[str, ...]
    exclude_tools: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Added({self.name!r}, scope={self.scope!r})"


def parse_add(argv: list[str]) -> Added:
    """What `alhena mcp add ARGV` asks for. Raises UsageError, which quotes no value of a variable
    and of a header."""
    words, said = _sorted(argv)
    if len(words) < 2:
        raise UsageError("a name and a command, or a URL, are needed.", remedy=_REMEDY)
    name, target, *args = words
    remote = target.startswith(("http://", "https://"))
    transport = _one_of(said, "transport", TRANSPORTS) or ("http" if remote else "stdio")
    if transport != "stdio" and not remote:
        raise UsageError(f"{transport} needs an http(s) URL.", remedy=_REMEDY)
    if not remote and "://" in target:
        scheme = target.partition("://")[0]
        raise UsageError(f"{scheme}:// is no http(s) URL, and no command.", remedy=_REMEDY)
    if transport == "stdio" and remote:
        raise UsageError("a URL is no command.", remedy="Use --transport http or sse.")
    env = dict(_pair(text, "=", "-e NAME=VALUE") for text in said.get("env", ()))
    headers = dict(_pair(text, ":", '-H "NAME: VALUE"') for text in said.get("header", ()))
    if transport == "stdio" and headers:
        raise UsageError("a command has no headers.", remedy="Give it variables with -e.")
    if transport != "stdio" and (env or args):
        raise UsageError("a URL has no arguments and no variables.", remedy="Give headers with -H.")
    return Added(
        name=name,
        target=target,
        args=tuple(args),
        scope=_one_of(said, "scope", SCOPES) or "project",
        transport=transport,
        env=env,
        headers=headers,
        timeout=_milliseconds(_last(said, "timeout")),
        trust="trust" in said,
        description=_last(said, "description"),
        include_tools=_names(said.get("include_tools", ())),
        exclude_tools=_names(said.get("exclude_tools", ())),
    )


def scope_of(command: str, argv: list[str], *, scoped: bool = True) -> tuple[str, str | None]:
    """The name and the scope (None: not said) of `alhena mcp COMMAND NAME`. Raises UsageError."""
    words, said = _sorted(argv)
    allowed = {"scope", "debug"} if scoped else {"debug"}
    odd = [word for word in words if word.startswith("-")] + [
        key for key in said if key not in allowed
    ]
    if odd or len(words) != 1:
        raise UsageError(f"alhena mcp {command} takes the name of one server.", remedy=_REMEDY)
    return words[0], _one_of(said, "scope", SCOPES)


def _sorted(argv: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words, and what options of ours say."""
    words: list[str] = []
    said: dict[str, list[str]] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word == "--":
            words += rest
            break
        if word in _FLAGS:
            said.setdefault(_FLAGS[word], [])
        elif word in _OPTIONS:
            if not rest:
                raise UsageError(f"{word} needs a value.", remedy=_REMEDY)
            said.setdefault(_OPTIONS[word], []).append(rest.pop(0))
        elif equals and flag in _OPTIONS and flag.startswith("--"):
            said.setdefault(_OPTIONS[flag], []).append(value)
        elif word.startswith("-") and len(words) < 2:
            raise UsageError(f"unknown option {flag}.", remedy=_REMEDY)
        else:
            words.append(word)
    return words, said


def _last(said: dict[str, list[str]], key: str) -> str | None:
    values = said.get(key)
    return values[-1] if values else None


def _one_of(said: dict[str, list[str]], key: str, choices: tuple[str, ...]) -> Any:
    value = _last(said, key)
    if value is not None and value not in choices:
        raise UsageError(
            f"--{key} is one of {', '.join(choices)}.",
            remedy="Options of the server's own stand behind --.",
        )
    return value


def _pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"one of them is not of the form {form}.", remedy=_REMEDY)
    return name.strip(), value.strip() if sign == ":" else value


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError("--timeout is a number of milliseconds above 0.", remedy=_REMEDY)
    return int(text)


def _names(texts: "list[str] | tuple[str, ...]") -> tuple[str, ...]:
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())
