"""Tools over real files that answer in the texts of the built-in ones, and a loop to drive them."""

import fnmatch
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from alhena.models.rehearsal.generator import RehearsalGenerator
from alhena.wire.content import USER, Content, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    Tool,
)
from alhena.wire.response import GenerateContentResponse

PARAMETERS = {
    "read_file": (["absolute_path"], ["offset", "limit"]),
    "write_file": (["file_path", "content"], []),
    "replace": (["file_path", "old_string", "new_string"], ["expected_replacements"]),
    "list_directory": (["path"], []),
    "glob": (["pattern"], ["path"]),
    "search_file_content": (["pattern"], ["path", "include"]),
    "run_shell_command": (["command"], ["description", "directory"]),
    "save_memory": (["fact"], []),
}
LOOKING = ("read_file", "list_directory", "glob", "search_file_content")


class ToolError(Exception):
    pass


def declaration(name: str) -> FunctionDeclaration:
    required, optional = PARAMETERS[name]
    integers = ("offset", "limit", "expected_replacements")
    return FunctionDeclaration(
        name=name,
        description=name,
        parameters_json_schema={
            "type": "object",
            "properties": {
                key: {"type": "integer" if key in integers else "string"}
                for key in required + optional
            },
            "required": required,
        },
    )


class FolderTools:
    """The eight tools on the files below `root`; `window` is how many lines read_file shows."""

    def __init__(self, root: Path, window: int = 2000) -> None:
        self.root = root
        self.window = window
        self.facts: list[str] = []

    def run(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        required, optional = PARAMETERS[name]
        missing, unknown = set(required) - set(args), set(args) - set(required) - set(optional)
        assert not missing, f"{name} needs {missing}"
        assert not unknown, f"{name} does not know {unknown}"
        try:
            return {"output": getattr(self, f"_{name}")(**args)}
        except ToolError as error:
            return {"error": str(error)}

    def _read_file(self, absolute_path: str, offset: int = 0, limit: int | None = None) -> str:
        path = self.root / absolute_path
        if not path.is_file():
            raise ToolError(f"File not found: {path}")
        data = path.read_bytes()
        if b"\0" in data:
            return f"Cannot display content of binary file: {absolute_path}"
        lines = data.decode("utf-8").splitlines(keepends=True)
        shown = lines[offset : offset + (limit or self.window)]
        text = "".join(shown)
        if len(shown) == len(lines):
            return text
        return (
            "\nIMPORTANT: The file content has been truncated.\n"
            f"Status: Showing lines {offset + 1}-{offset + len(shown)} of {len(lines)} total lines.\n"
            "Action: To read more of the file, use offset and limit.\n\n"
            f"--- FILE CONTENT (truncated) ---\n{text}"
        )

    def _write_file(self, file_path: str, content: str) -> str:
        path = self.root / file_path
        known = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        if known:
            return f"Successfully overwrote file: {path}."
        return f"Successfully created and wrote to new file: {path}."

    def _replace(
        self, file_path: str, old_string: str, new_string: str, expected_replacements: int = 1
    ) -> str:
        path = self.root / file_path
        text = path.read_text(encoding="utf-8")
        if text.count(old_string) != expected_replacements:
            raise ToolError(f"expected {expected_replacements}, found {text.count(old_string)}")
        path.write_text(text.replace(old_string, new_string), encoding="utf-8")
        return f"Successfully modified file: {path} ({expected_replacements} replacements)."

    def _list_directory(self, path: str) -> str:
        folder = (self.root / path).resolve()
        if not folder.is_dir():
            raise ToolError(f"Error: Path is not a directory: {folder}")
        entries = sorted(folder.iterdir(), key=lambda item: (not item.is_dir(), item.name))
        if not entries:
            return f"Directory {folder} is empty."
        lines = [
            f"[DIR] {item.name}" if item.is_dir() else f"{item.name} ({item.stat().st_size} bytes)"
            for item in entries
        ]
        return f"Directory listing for {folder}:\n" + "\n".join(lines)

    def _glob(self, pattern: str, path: str = ".") -> str:
        folder = (self.root / path).resolve()
        found = sorted(item for item in folder.glob(pattern) if item.is_file())
        if not found:
            return f'No files found matching pattern "{pattern}" within {folder}'
        return (
            f'Found {len(found)} file(s) matching "{pattern}" within {folder}, '
            "sorted by modification time (newest first):\n" + "\n".join(map(str, found))
        )

    def _search_file_content(self, pattern: str, path: str = ".", include: str = "*") -> str:
        place = self.root / path
        if not place.exists():
            raise ToolError(f"Path does not exist: {place}")
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        blocks: list[str] = []
        total = 0
        for file in files:
            if not file.is_file() or not fnmatch.fnmatch(file.name, include):
                continue
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            hits = [
                f"L{number}: {line.rstrip()}"
                for number, line in enumerate(lines, 1)
                if re.search(pattern, line, re.IGNORECASE)
            ]
            total += len(hits)
            if hits:
                blocks.append(
                    f"File: {file.relative_to(self.root)}\n" + "\n".join(hits) + "\n---\n"
                )
        if not total:
            return f'No matches found for pattern "{pattern}" in path "{path}".'
        return f'Found {total} matches for pattern "{pattern}" in path "{path}":\n---\n' + "".join(
            blocks
        )

    def _run_shell_command(
        self, command: str, description: str = "", directory: str | None = None
    ) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root / (directory or "."),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return (
            f"Command: {command}\nDirectory: {directory or '(root)'}\n"
            f"Output: {done.stdout.rstrip() or '(empty)'}\nError: (none)\n"
            f"Exit Code: {done.returncode}\nSignal: (none)\nBackground PIDs: (none)\n"
            "Process Group PGID: 4242"
        )

    def _save_memory(self, fact: str) -> str:
        self.facts.append(fact)
        return f'Okay, I\'ve remembered that: "{fact}"'


class Conversation:
    """A history with the rehearsal: `say` drives the loop until there are no more calls."""

    def __init__(
        self,
        tools: FolderTools,
        names: tuple[str, ...] = tuple(PARAMETERS),
        extra: tuple[FunctionDeclaration, ...] = (),
    ) -> None:
        self.tools = tools
        declarations = (*map(declaration, names), *extra)
        self.config = GenerateContentConfig(tools=(Tool(function_declarations=declarations),))
        self.history: list[EncodedContent] = []
        self.turns: list[list[GenerateContentResponse]] = []

    def request(self) -> GenerateContentRequest:
        return GenerateContentRequest(
            model="rehearsal", contents=tuple(self.history), config=self.config
        )

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, args) for turn in self.call_turns for name, args in turn]

    @property
    def call_turns(self) -> list[list[tuple[str, dict[str, Any]]]]:
        turns = [
            [
                (part.function_call.name, part.function_call.args or {})
                for response in turn
                for part in response.parts
                if part.function_call
            ]
            for turn in self.turns
        ]
        return [turn for turn in turns if turn]

    @property
    def ids(self) -> list[str | None]:
        return [
            part.function_call.id
            for turn in self.turns
            for response in turn
            for part in response.parts
            if part.function_call
        ]

    async def turn(self) -> tuple[Part, ...]:
        """One model turn; what is no thought enters the history."""
        chunks = [chunk async for chunk in RehearsalGenerator().stream(self.request())]
        self.turns.append(chunks)
        parts = tuple(part for chunk in chunks for part in chunk.parts if not part.thought)
        self.history.append(EncodedContent(Content(role="model", parts=parts)))
        return parts

    def answer(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The responses to the calls among the parts."""
        return tuple(
            Part(
                function_response=FunctionResponse(
                    id=part.function_call.id,
                    name=part.function_call.name,
                    response=self.tools.run(
                        part.function_call.name,
                        msgspec.json.decode(msgspec.json.encode(part.function_call.args or {})),
                    ),
                )
            )
            for part in parts
            if part.function_call
        )

    async def say(self, prompt: str) -> str:
        self.history.append(EncodedContent(text_content(USER, prompt)))
        for _ in range(12):
            parts = await self.turn()
            responses = self.answer(parts)
            if not responses:
                return "".join(part.text or "" for part in parts)
            self.history.append(EncodedContent(Content(role=USER, parts=responses)))
        raise AssertionError("no answer within 12 turns")
