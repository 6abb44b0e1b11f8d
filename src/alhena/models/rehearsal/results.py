"""Reading the text of tool results, tolerantly: what is not recognised is left out."""

import re

import msgspec

_MARK = re.compile(r"^--- FILE CONTENT(?: \(truncated\))? ---\n", re.MULTILINE)
_ENTRY = re.compile(r"(?P<name>.+) \((?P<size>\d+) bytes\)")
_LINE = re.compile(r"L(?P<line>\d+): ?(?P<text>.*)")


class Listing(msgspec.Struct, frozen=True):
    """A folder: its absolute path ("" when not said), folders, and files with sizes in bytes (-1
    when not said)."""

    root: str
    folders: tuple[str, ...]
    files: tuple[tuple[str, int], ...]


class FileText(msgspec.Struct, frozen=True):
    """What was read of a file; `last` of `total` lines were shown when it was cut (else 0)."""

    text: str
    last: int = 0
    total: int = 0

    @property
    def lines(self) -> int:
        """The number of lines of the whole file."""
        return self.total or len(self.text.splitlines())


class Match(msgspec.Struct, frozen=True):
    """A line found by a search."""

    file: str
    line: int
    text: str


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended; `exit_code` is "(none)" when a signal ended it, "" when not said."""

    output: str
    error: str
    exit_code: str
    signal: str


def listing(output: str) -> Listing:
    """Reads what list_directory returns."""
    lines = output.splitlines()
    heading = (
        re.match(r"Directory listing for (.*):$|Directory (.*) is empty\.", lines[0])
        if lines
        else None
    )
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    for line in lines[1:] if heading else lines:
        entry = _ENTRY.fullmatch(line)
        if line.startswith("[DIR] "):
            folders.append(line.removeprefix("[DIR] "))
        elif entry:
            files.append((entry["name"], int(entry["size"][:18])))
        elif line.strip() and not line.startswith("("):
            files.append((line, -1))
    root = (heading[1] or heading[2]) if heading else ""
    return Listing(root, tuple(folders), tuple(files))


def paths(output: str) -> tuple[str, ...]:
    """Reads what glob returns; paths are relative to the folder searched where that is said."""
    output = _uncut(output)
    head, _, rest = output.partition("\n")
    if head.startswith("No files found"):
        return ()
    within = re.search(r" within (?P<root>.+?)(?: \(|, sorted|:|$)", head)
    root = within["root"].rstrip("/") + "/" if within else ""
    if not head.startswith("Found "):
        rest = output
    found = (line for line in rest.splitlines() if line.strip() and line[0] not in "([")
    return tuple(line.removeprefix(root) for line in found if line.startswith(root))


def count_found(output: str) -> int:
    """How many files glob says it found; 0 when it does not say."""
    said = re.match(r"Found (\d{1,15}) ", _uncut(output))
    return int(said[1]) if said else 0


def _uncut(output: str) -> str:
    """A result without the line above it that says that its middle was left out."""
    return output.partition("\n")[2] if output.startswith("Output too large.") else output


def file_text(output: str) -> FileText:
    """Reads what read_file returns, with or without a header."""
    mark = _MARK.search(output)
    if mark is None or not output.lstrip().startswith(("IMPORTANT:", "NOTE:")):
        return FileText(output)
    head, body = output[: mark.start()], output[mark.end() :]
    status = re.search(r"lines \d+-(\d{1,15}) of (\d{1,15})", head)
    if status is None:
        return FileText(body)
    return FileText(body, int(status[1]), int(status[2]))


def is_binary_notice(output: str) -> bool:
    """Whether read_file said that a file is no text, instead of showing it."""
    return re.match(r"Cannot display content of binary file|Binary content ", output) is not None


def matches(output: str) -> tuple[Match, ...]:
    """Reads what search_file_content returns."""
    found: list[Match] = []
    file = ""
    for line in output.splitlines():
        hit = _LINE.fullmatch(line)
        if line.startswith("File: "):
            file = line.removeprefix("File: ")
        elif hit and file:
            found.append(Match(file, int(hit["line"][:18]), hit["text"]))
    return tuple(found)


def command_result(output: str) -> CommandResult:
    """Reads what run_shell_command returns. The command's own output may hold lines that look like
    the labels, so the labels after it are looked for from the end."""
    if "\nOutput: " not in f"\n{output}":
        return CommandResult(output, "", "", "")
    body = f"\n{output}".split("\nOutput: ", 1)[1]
    tail_at = body.rfind("\nExit Code: ")
    tail = body[tail_at:] if tail_at >= 0 else ""
    body = body[:tail_at] if tail_at >= 0 else body
    error_at = body.rfind("\nError: ")
    error = body[error_at + len("\nError: ") :] if error_at >= 0 else ""
    text = body[:error_at] if error_at >= 0 else body
    return CommandResult(
        _given(text), _given(error), _label(tail, "Exit Code"), _given(_label(tail, "Signal"))
    )


def _label(text: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _given(text: str) -> str:
    return "" if text.strip() in ("(none)", "(empty)") else text
