"""Prompts that name files (@path), resources and prompts of MCP servers, and custom commands.

Where there are none of them, nothing of them is imported.
"""

import os
import re
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from alhena.display_text import first_of, one_line
from alhena.errors import InputError, InterruptedRunError
from alhena.system.unicode_forms import accented_names, existing_form
from alhena.values import Value
from alhena.wire.content import Part
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.agent.toolset.toolset import Toolset
    from alhena.commands import CommandFolder, Piece, ShellPlaceholder
    from alhena.mcp.resources import PromptCommand
    from alhena.scheduler.states import CompletedToolCall

HEAD = "\n--- Content from referenced files ---\n"
MAX_SHELL_OUTPUT = 10_000
NAMED = 5

_LETTERS = "A-Za-z0-9\u00c0-\u052f"
"""Letters of scripts with blanks between words; others may touch a path."""
_MENTION = re.compile(rf"(?<!\\)(?<![{_LETTERS}@])(?<![{_LETTERS}_]_)@(?=\S)")
_QUOTED = re.compile(r"""(["'`])((?:(?!\1)[^\n])+)\1""")
_LONG_WORD = re.compile(r"(?:\\.|[^\s\\]){1,1000}")
_STOPS = (
    r",;!?()\[\]{}\"\\*`\u2018-\u201f\u2026\u3001\u3002\u3008-\u3011"
    r"\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
)
_WORD = re.compile(rf"(?:\\.|[^\s{_STOPS}])+")
_STEP = re.compile(r"\\.|.", re.DOTALL)
_AFTER_FILE = re.compile(
    rf"$|[^{_LETTERS}._/~-]|[._~-]++(?:$|[^{_LETTERS}/])|/+(?:$|[^\w./\[(~-])", re.DOTALL
)
_AFTER_DIRECTORY = re.compile(
    rf"[*_~.:/-]*+(?:$|[^\w\[({{<+=%$&#@^~\\/?.:-])|(?=[^{_LETTERS}_])\w", re.DOTALL
)
_LINES = re.compile(
    r"(?::(N)(?:[-\u2013](N)|:N)?|#L(N)(?:CN)?(?:[-\u2013]L?(N)(?:CN)?)?)(?!\w)".replace(
        "N", r"\d{1,9}"
    ),
    re.ASCII,
)


class Mention(Value, frozen=True):
    """A path after an @ in a prompt, and the first and last line of it that are meant."""

    path: str
    lines: tuple[int, int] | None = None


def find_mentions(prompt: str, cwd: Path | None = None) -> tuple[Mention, ...]:
    """The paths that a prompt names with an @, in order and each once; backslashes and quotes are
    resolved. Of a word it is the longest beginning that names a file or directory below `cwd`, with
    the lines that follow it (`:12`, `:1-3`, `#L3`), or else what comes before punctuation."""
    found: dict[Mention, None] = {}
    for match in _MENTION.finditer(prompt):
        mention = _find_mention(prompt, match.end(), cwd)
        if mention.path:
            found[mention] = None
    return tuple(found)


def _find_mention(prompt: str, start: int, cwd: Path | None) -> Mention:
    """The path that begins at a place of a prompt."""
    names_in = cache(accented_names)
    quoted = _QUOTED.match(prompt, start)
    if quoted is not None:
        if cwd is not None and os.path.lexists(_place(cwd, quoted[2], names_in)):
            return Mention(quoted[2], _find_lines(prompt, quoted.end()))
        if quoted[1] != "'":
            return Mention(quoted[2])
    long_word = _LONG_WORD.match(prompt, start)
    if long_word is not None and cwd is not None:
        steps = [step[0] for step in _STEP.finditer(long_word[0])]
        for count in range(len(steps), 0, -1):
            path, rest = _unescape("".join(steps[:count])), "".join(steps[count:])
            place = _place(cwd, path, names_in)
            if not os.path.lexists(place):
                continue
            if os.path.isdir(place):
                if not rest or _ends_directory(path, rest):
                    return Mention(path.removesuffix(".") if path.endswith("/.") else path)
            elif not rest or _AFTER_FILE.match(rest):
                return Mention(path, _find_lines(rest, 0))
    word = _WORD.match(prompt, start)
    path = "" if word is None else _unescape(word[0]).rstrip(".:")
    if long_word is not None and cwd is not None and os.path.lexists(_place(cwd, path, names_in)):
        path = re.sub(rf"[.:'{_STOPS}]+$", "", _unescape(long_word[0]))
    return Mention(path)


def _ends_directory(path: str, rest: str) -> bool:
    """True where a directory's name ends before `rest`. A longer name is another one: of a
    file that is missing, the directory is not meant."""
    found = _AFTER_DIRECTORY.match(rest)
    return found is not None and not (path.endswith("/") and re.match(r"\w", rest))


def _find_lines(text: str, start: int) -> tuple[int, int] | None:
    """The range of lines that is written at a place, from 1 on."""
    found = _LINES.match(text, start)
    if found is None:
        return None
    first = int(found[1] or found[3])
    last = int(found[2] or found[4] or first)
    return (min(first, last), max(first, last)) if first and last else None


def _unescape(written: str) -> str:
    return re.sub(r"\\(.)", r"\1", written)


def _place(cwd: Path, path: str, names_in: Callable[[str], Mapping[str, str]]) -> str:
    """The place that a path means: of what is missing, that of a canonically equal path."""
    place = os.path.join(cwd, _expand_home(path))
    if place.isascii() or os.path.lexists(place):
        return place
    found = existing_form(os.path.normpath(place), names_in)
    return f"{found}/" if place.endswith("/") else found


def _expand_home(path: str) -> str:
    return os.path.expanduser(path)


def existing(paths: Sequence[str], cwd: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the paths that are there, and those that are not: the latter stay mere text."""
    names_in = cache(accented_names)
    there = tuple(path for path in paths if os.path.lexists(_place(cwd, path, names_in)))
    return there, tuple(path for path in paths if path not in there)


def missing_words(paths: Sequence[str]) -> str:
    """Warning about paths that do not exist."""
    what = "is no such file" if len(paths) == 1 else "are no such files"
    return f"{_list_paths(paths)}: there {what}; sent as text."


def _list_paths(paths: Sequence[str]) -> str:
    return first_of([f"@{path}" for path in paths], NAMED)


def quoted_path(path: str) -> str:
    """A path as it is written after an @."""
    return re.sub(rf"([\s{_STOPS}])", r"\\\1", path)


def attachment(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The result of read_many_files as parts of a prompt."""
    texts: list[Part] = []
    media = [part for part in parts if part.function_response is None]
    for part in parts:
        if part.function_response is not None and not media:
            output = part.function_response.response.get("output")
            texts.append(Part(text=str(output)))
    return (Part(text=HEAD), *texts, *media)


def shell_note(command: str, output: str) -> Part:
    """Note to the model about a command the person ran."""
    if len(output) > MAX_SHELL_OUTPUT:
        output = output[:MAX_SHELL_OUTPUT] + "\n... (truncated)"
    return Part(
        text=f"I ran the following shell command:\n```sh\n{command}\n```\n\n"
        f"This produced the following result:\n```\n{output}\n```"
    )


CallTool = Callable[[str, Mapping[str, object]], Awaitable["CompletedToolCall | None"]]
"""Calls a tool as a person would have it; None when it was interrupted."""


async def attach_mentions(
    text: str, bench: "Toolset", call: CallTool, warn: Callable[[str], None]
) -> tuple[Part, ...]:
    """Parts sent with a prompt for its @paths and the agents it names. Missing paths are passed to
    `warn` and stay plain text."""
    from alhena.tools.registry import DELEGATE

    mentions = find_mentions(text, bench.workspace.cwd)
    words = tuple(dict.fromkeys(mention.path for mention in mentions))
    resources = resources_among(bench, words)
    others = [word for word in words if word not in resources]
    paths, missing = existing(others, bench.workspace.cwd)
    agents = agent_names(bench) if missing else frozenset[str]()
    if unknown := [path for path in missing if path not in agents]:
        warn(missing_words(unknown))
    note = "\nThe agent {} is to do this: give it the task by {}.\n"
    attached = [Part(text=note.format(name, DELEGATE)) for name in missing if name in agents]
    for uri in resources:
        read = await call("read_mcp_resource", {"uri": uri})
        if read is not None and not read.response.error:
            attached += resource_attachment(uri, read.response.response_parts)
    sent: set[str] = set()
    for path in paths:
        if reason := _why_filtered(bench, path):
            warn(f"{one_line(f'@{path}', 200)} is left out: {reason}")
        else:
            sent.add(path)
    found = [each for each in mentions if each.path in sent]
    return (*attached, *await _read_mentions(found, bench, call, warn))


async def _read_mentions(
    mentions: Sequence[Mention], bench: "Toolset", call: CallTool, warn: Callable[[str], None]
) -> list[Part]:
    """The files that are there: whole ones together, ranges of lines one by one."""
    attached: list[Part] = []
    whole = {_expand_home(each.path): None for each in mentions if each.lines is None}
    if whole:
        done = await call("read_many_files", {"paths": list(whole), **_filtering(bench)})
        if done is not None and not done.response.error:
            attached += attachment(done.response.response_parts)
            for words in _missing_content(bench, list(whole), done.response.data or {}):
                warn(words)
    for mention in mentions:
        path = _expand_home(mention.path)
        if mention.lines is None or path in whole:
            continue
        first, last = mention.lines
        offset = {"offset": first - 1, "limit": last - first + 1}
        done = await call("read_file", {"absolute_path": path, **offset})
        if done is not None and not done.response.error:
            parts = attachment(done.response.response_parts)
            attached += [Part(text=f"{HEAD}--- {path}, lines {first}-{last} ---\n\n"), *parts[1:]]
    return attached


def _missing_content(
    bench: "Toolset", paths: Sequence[str], data: Mapping[str, Any]
) -> Iterator[str]:
    """Warnings about paths that read_many_files has sent nothing of."""
    reasons: Mapping[str, str] = data.get("reasons") or {}
    found = {path: reasons.get(str(bench.workspace.resolve(path))) for path in paths}
    for path, reason in found.items():
        if reason is not None:
            yield f"{_list_paths([path])} is not sent: {reason}."
    if data.get("processed") or any(found.values()):
        return
    ignored = data.get("ignored")
    what = f"{_list_paths(paths)}: nothing there can be sent"
    noun = "file" if ignored == 1 else "files"
    keys = "context.fileFiltering.respectGitIgnore or respectGeminiIgnore"
    yield (
        f"{what}: ignore files leave out {ignored} {noun}. Send them with {keys}: false."
        if ignored
        else f"{what}: there is no text or medium."
    )


def _filtering(bench: "Toolset") -> dict[str, object]:
    """The arguments of read_many_files with which ignore files hold as the settings say, also for
    what is in a named folder."""
    filters = bench.settings.context.file_filtering
    return {
        "file_filtering_options": {
            "respect_git_ignore": filters.respect_git_ignore,
            "respect_gemini_ignore": filters.respect_gemini_ignore,
        }
    }


def _why_filtered(bench: "Toolset", path: str) -> str:
    """The reason why ignore files leave out a path, with the remedy; "" if they do not."""
    from alhena.system.ignore import IgnoreRules
    from alhena.tools.base import root_of

    filters, workspace = bench.settings.context.file_filtering, bench.workspace
    place = workspace.resolve(os.path.expanduser(path))
    root, is_dir = root_of(workspace, place), os.path.isdir(place)
    for respects, git, custom, who, key in (
        (filters.respect_git_ignore, True, (), "git ignores it", "respectGitIgnore: false"),
        (filters.respect_gemini_ignore, False, (), "a .geminiignore names it",
         "respectGeminiIgnore: false"),
        (True, False, filters.custom_ignore_file_paths, "an ignore file of yours names it",
         "customIgnoreFilePaths without that file"),
    ):  # fmt: skip
        gemini = key.startswith("respectGemini")
        rules = IgnoreRules(root, git=git, gemini=gemini, custom=custom)
        if respects and rules.is_ignored(place, is_dir):
            return f"{who}. Send it with context.fileFiltering.{key}."
    return ""


def agent_names(bench: "Toolset") -> frozenset[str]:
    """The names of the agents that the model can give tasks to."""
    from alhena.tools.registry import DELEGATE

    entry = bench.registry.find(DELEGATE)
    properties: dict[str, Any] = {} if entry is None else entry.tool.parameter_schema["properties"]
    return frozenset(properties.get("agent_name", {}).get("enum", ()))


def resources_among(bench: "Toolset", words: Sequence[str]) -> tuple[str, ...]:
    """Those of the words after an @ that mean resources of servers."""
    if bench.servers is None:
        return ()
    from alhena.mcp.resources import find

    servers = bench.servers.servers
    return tuple(word for word in words if ":" in word and find(servers, word) is not None)


def resource_attachment(uri: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """The result of read_mcp_resource as parts of a prompt."""
    pieces: list[Part] = []
    for part in parts:
        if part.function_response is None:
            pieces.append(part)
        elif len(parts) == 1:
            pieces.append(Part(text=str(part.function_response.response.get("output", ""))))
    return (Part(text=f"\nContent from @{uri}:\n"), *pieces)


def server_prompts(bench: "Toolset", own: Container[str] = ()) -> "dict[str, PromptCommand]":
    """The prompts of the servers that are connected, by the names of their commands. Of a server
    that the policy denies there are none. `own` are names of other commands."""
    if bench.servers is None:
        return {}
    from alhena.agent.toolset.mcp_review import refuses_server
    from alhena.mcp.resources import prompt_commands

    servers = [
        each
        for each in bench.servers.servers.values()
        if not refuses_server(bench.authority.decide, each.name)
    ]
    return prompt_commands(servers, own.__contains__)


def command_word(text: str) -> tuple[str, str] | None:
    """The name of the command that a prompt calls and the rest of the prompt; None for a prompt
    that calls none: it does not begin with a slash, or with a path."""
    words = text.strip().split(None, 1)
    if not words or not words[0].startswith("/"):
        return None
    name = words[0].removeprefix("/")
    return (name, "".join(words[1:])) if name and "/" not in name else None


class PromptCommands:
    """Commands that stand for a prompt: custom ones, and prompts of MCP servers. `taken` are the
    names of other commands."""

    def __init__(self, bench: "Callable[[], Toolset]", taken: Container[str] = ()) -> None:
        self._bench = bench
        self._taken = taken
        self.load(())

    def load(self, sources: "Sequence[CommandFolder] | None" = None) -> list[str]:
        """Finds the custom commands of these sources, or again those of the last ones. Returns what
        is wrong with them."""
        from alhena.commands import CustomCommands

        if sources is not None:
            self._sources = sources
        self.custom = CustomCommands(self._sources, self._taken)
        return self.custom.problems

    def server_commands(self) -> "dict[str, PromptCommand]":
        """The prompts of MCP servers by the names of their commands."""
        found = server_prompts(self._bench(), self.custom.files)
        return {name: each for name, each in found.items() if name not in self._taken}

    def __contains__(self, name: str) -> bool:
        return self.custom.find(name) is not None or name in self.server_commands()

    def names(self) -> list[tuple[str, str]]:
        """All names, with their descriptions."""
        custom = self.custom
        names = [(name, custom.describe_command(file)) for name, file in custom.files.items()]
        served = sorted(self.server_commands().items())
        return names + [(name, one_line(each.prompt.description, 200)) for name, each in served]

    async def fill(
        self, name: str, rest: str, call: CallTool, warn: Callable[[str], None]
    ) -> "FilledPrompt":
        """The prompt of a command; tools are called for what it injects. Raises InputError,
        McpError, InterruptedRunError."""
        file = self.custom.find(name)
        if file is None:
            from alhena.mcp.resources import fetch_prompt

            parts = await fetch_prompt(self.server_commands()[name], rest)
            made: list[str | Part] = []
            for part in parts:
                made += ["\n\n"] if part.text and any(map(_is_text, made)) else []
                made.append(part.text or part)
            return _join_pieces(made)
        pieces = self.custom.read(file).pieces
        return await _filled_template(pieces, (name, rest), call, warn, self._bench())


class FilledPrompt(Value, frozen=True):
    """A prompt with the parts, such as images, that stand within its text: each with the number of
    characters before it."""

    text: str
    within: tuple[tuple[int, Part], ...] = ()


def _is_text(piece: str | Part) -> bool:
    return isinstance(piece, str)


def _join_pieces(pieces: Sequence[str | Part]) -> FilledPrompt:
    text = ""
    within: list[tuple[int, Part]] = []
    for piece in pieces:
        if isinstance(piece, str):
            text += scrub(piece)
        else:
            within.append((len(text), piece))
    return FilledPrompt(text, tuple(within))


async def _filled_template(
    pieces: "tuple[Piece, ...]",
    called: tuple[str, str],
    call: CallTool,
    warn: Callable[[str], None],
    bench: "Toolset",
) -> FilledPrompt:
    from alhena.commands import (
        ARGUMENTS,
        ArgumentsPlaceholder,
        FilePlaceholder,
        LiteralText,
        ShellPlaceholder,
        takes_arguments,
    )

    name, rest = called
    made: list[str | Part] = []
    for piece in pieces:
        match piece:
            case LiteralText():
                made.append(piece.text)
            case ArgumentsPlaceholder():
                made.append(rest)
            case ShellPlaceholder():
                made.append(await _shell_output(name, piece, rest, call))
            case FilePlaceholder():
                path = piece.path.replace(ARGUMENTS, rest).strip()
                found = await _file_content(path, call, bench)
                if found.why:
                    warn(f"/{name}: {found.why}")
                made += found.pieces
    if rest and not takes_arguments(pieces):
        made.append(f"\n\n/{name} {rest}")
    return _join_pieces(made)


class _InjectedFile(Value, frozen=True):
    """The text and media that take the place of `@{path}`, and why something is left out."""

    pieces: tuple[str | Part, ...] = ()
    why: str = ""


async def _file_content(path: str, call: CallTool, bench: "Toolset") -> _InjectedFile:
    """The content at a path: the placeholder where nothing can be read, nothing of ignored
    files."""
    shown = f"@{{{path}}}"
    nothing = _InjectedFile((shown,), why=f"there is nothing to read at {shown}; sent as text.")
    if not path:
        return nothing
    if reason := _why_filtered(bench, path):
        return _InjectedFile(why=f"{shown} is left out: {reason}")
    done = await call("read_many_files", {"paths": [path], **_filtering(bench)})
    if done is None:
        raise InterruptedRunError("the command was interrupted.")
    answer = done.response
    data = answer.data or {}
    ignored = data.get("ignored", 0)
    if answer.error or not data.get("processed"):
        reasons: set[str] = set(cast("dict[str, str]", data.get("reasons") or {}).values())
        if answer.error or not reasons or not all(each.endswith(_IGNORED) for each in reasons):
            return nothing
        return _InjectedFile(why=f"{shown} is left out: {', '.join(sorted(reasons))}.")
    why = f"{ignored} file(s) of {shown} are left out by ignore files." if ignored else ""
    media = [part for part in answer.response_parts if part.function_response is None]
    outputs = (part.function_response for part in answer.response_parts)
    text = "".join(str(each.response.get("output", "")) for each in outputs if each)
    is_folder = bench.workspace.resolve(path).is_dir()
    if media and data.get("processed") == len(media):
        text = ""  # it only names the media
    if is_folder:
        text = text.removesuffix(_END).rstrip("\n")
        head = f"--- Start of content for directory: {path} ---\n"
        end = f"\n--- End of content for directory: {path} ---"
        return _InjectedFile((head, text, *media, end), why=why)
    framed = _FRAMED.fullmatch(text) if data.get("processed") == 1 else None
    return _InjectedFile((text if framed is None else framed[1], *media), why=why)


_END = "--- End of content ---"
_IGNORED = "leaves it out"
"""The end of the reason for a file that an ignore file excludes."""
_FRAMED = re.compile(r"--- .* ---\n\n((?s:.*))\n\n\n--- End of content ---")
"""The result of read_many_files for one file."""


async def _shell_output(name: str, piece: "ShellPlaceholder", rest: str, call: CallTool) -> str:
    """The output of a shell command, which the gate has to allow."""
    from alhena.commands.placeholders import with_arguments
    from alhena.tools.contract import TerminalOutput

    command = with_arguments(piece.command, rest)
    done = await call("run_shell_command", {"command": command})
    if done is None:
        raise InterruptedRunError("the command was interrupted.")
    answer = done.response
    shown = answer.result_display
    if answer.error or not isinstance(shown, TerminalOutput):
        raise InputError(
            f'/{name} cannot be run. Blocked command: "{command}". Reason: {answer.error}',
            remedy="Approve it at the terminal, or allow it in a policy.",
        )
    text = shown.text
    if shown.exit_code == 0:
        return text
    how = f"exited with code {shown.exit_code}"
    if shown.exit_code is None:
        how = f"terminated by signal {(answer.data or {}).get('signal')}"
    return f"{text}\n[Shell command '{command}' {how}]"
