"""Prompts of servers as slash commands: names, arguments, content."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from alhena.display_text import escaped
from alhena.errors import InputError
from alhena.mcp.connection import ListedPrompt
from alhena.mcp.server import Server
from alhena.mcp.tool import content_of
from alhena.wire.content import Part
from alhena.wire.json_values import as_array, as_object

_PIECES = r"""\\.|"(?:[^"\\]|\\.)*"|'[^']*'|\\$|[^\s"'\\]"""
_PIECE = re.compile(_PIECES, re.DOTALL)
_WORD = re.compile(rf"(?:{_PIECES})+(?=\s|$)", re.DOTALL)


class PromptCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that can be called by a command name."""

    name: str
    server: Server
    prompt: ListedPrompt


def prompt_commands(
    servers: Iterable[Server], taken: Callable[[str], bool]
) -> dict[str, PromptCommand]:
    """Maps command names to the prompts of all servers: blanks become dashes; a name that is taken
    gets the server's name as a prefix."""
    found: dict[str, PromptCommand] = {}
    for server in servers:
        for prompt in server.offer.prompts:
            name = "-".join(escaped(prompt.name).split())
            if name in found or taken(name):
                name = f"{server.name}.{name}"
            if name not in found and not taken(name):
                found[name] = PromptCommand(name=name, server=server, prompt=prompt)
    return found


def prompt_arguments(prompt: ListedPrompt, text: str) -> dict[str, str]:
    """Parses the arguments of a command: `--name=value`, `--name="two words"`, and positional ones.
    Extra words belong to the last required argument.

    Raises InputError for unclosed quotes, unknown names, and missing required arguments.
    """
    known = [each.name for each in prompt.arguments]
    given: dict[str, str] = {}
    loose: list[str] = []
    for word, quoted in _words(text):
        name, equals, value = word.removeprefix("--").partition("=")
        if not quoted and word.startswith("--") and equals and name:
            if name not in known:
                raise InputError(
                    f"the prompt {prompt.name} has no argument --{name}.",
                    remedy=f"It has: {', '.join(known) or 'none'}.",
                )
            given[name] = value
        else:
            loose.append(word)
    open_names = [name for name in known if name not in given]
    required = [each.name for each in prompt.arguments if each.required and each.name in open_names]
    if len(required) == 1 and loose:
        given[required[0]] = " ".join(loose)
    else:
        given |= dict(zip(open_names, loose, strict=False))
        if len(loose) > len(open_names) and open_names:
            given[open_names[-1]] = " ".join(loose[len(open_names) - 1 :])
    missing = [
        f"--{each.name}" for each in prompt.arguments if each.required and each.name not in given
    ]
    if missing:
        raise InputError(
            f"Missing required argument(s): {', '.join(missing)}", remedy=usage(prompt)
        )
    return given


def usage(prompt: ListedPrompt) -> str:
    """Describes the arguments of a prompt."""
    shown = (f'--{each.name}="…"' for each in prompt.arguments)
    return f"Give it as {' '.join(shown)}." if prompt.arguments else "It takes no arguments."


async def filled_in(command: PromptCommand, text: str) -> tuple[Part, ...]:
    """Fetches a prompt with the arguments in `text`. Raises InputError and McpError."""
    arguments = prompt_arguments(command.prompt, text)
    result = await command.server.get_prompt(command.prompt.name, arguments)
    return prompt_parts(command.prompt.name, result)


def prompt_parts(name: str, result: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of all messages of a prompt, in order."""
    parts: list[Part] = []
    for item in as_array(result.get("messages")) or []:
        message = as_object(item) or {}
        content = message.get("content")
        blocks = as_array(content) or [content]
        made = content_of(name, {"content": blocks})
        pieces = (made,) if isinstance(made, str | Part) else made
        for piece in pieces:
            part = Part(text=piece) if isinstance(piece, str) else piece
            if part.text is None or part.text:
                parts.append(part)
    return tuple(parts)


def _words(text: str) -> list[tuple[str, bool]]:
    """Splits a line into words, each with True if it began with a quote. Quoted and escaped blanks
    belong to the word. Raises InputError."""
    words: list[tuple[str, bool]] = []
    rest = text.strip()
    while rest:
        match = _WORD.match(rest)
        if match is None:
            raise InputError(
                f"what is behind {rest[:20]} has no end.",
                remedy="Close the quote, or put a backslash before it.",
            )
        word = match[0]
        words.append((_PIECE.sub(_unquoted, word), word[0] in "\"'"))
        rest = rest[match.end() :].lstrip()
    return words


def _unquoted(piece: re.Match[str]) -> str:
    text = piece[0]
    if text[0] == "'":
        return text[1:-1]
    if text[0] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    return text[1:] if text[0] == "\\" and len(text) > 1 else text
