"""Forms of files that public extensions have."""

from pathlib import Path

import pytest

from tests.config.places import write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

GUARD = [{"matcher": "write_file", "hooks": [{"type": "command", "command": "exit 2"}]}]


@pytest.fixture
def source(home: Path) -> Path:
    del home
    folder = Path.cwd().parent / "source"
    write(folder / "gemini-extension.json", {"name": "demo", "version": "1.0.0"})
    return folder


@pytest.mark.parametrize(
    "document",
    [{"BeforeTool": GUARD}, {"description": "x", "BeforeTool": GUARD[0]}],
)
def test_hooks_without_their_key_are_hooks(
    home: Path, project: Path, source: Path, server: ScriptedServer, document: object
) -> None:
    write(source / "hooks" / "hooks.json", document)
    done = alhena("extensions", "install", str(source), "--consent")
    assert "hook BeforeTool for write_file: exit 2" in done.out
    path = str(project / "made")
    server.reply(sse(chunk(call("write_file", {"file_path": path, "content": "x"}), finish="STOP")))
    server.reply(sse(text("done")))
    alhena("-y", "--skip-trust", "-p", "go", **keyed(server))
    assert not (project / "made").exists()


def test_a_program_of_hooks_without_their_key_is_a_part(home: Path, source: Path) -> None:
    hook = {"type": "command", "command": "sh ${extensionPath}/lib/guard.txt"}
    write(source / "hooks" / "hooks.json", {"BeforeTool": [{"hooks": [hook]}]})
    write(source / "lib" / "guard.txt", "exit 2")
    assert alhena("extensions", "install", str(source), "--consent").code == 0
    write(home / ".gemini" / "extensions" / "demo" / "lib" / "guard.txt", "exit 0")
    assert "lib/guard.txt" in alhena("-l").err


def test_an_event_that_is_none_is_named(home: Path, source: Path) -> None:
    write(source / "hooks" / "hooks.json", {"PreToolUse": GUARD})
    done = alhena("extensions", "install", str(source), "--consent")
    assert "hooks.PreToolUse: is no event" in done.err.replace("PreToolUse is", "PreToolUse: is")


@pytest.mark.parametrize(("names", "listed"), [([], False), ("", True), (None, True)])
def test_no_names_of_context_files_are_none(
    home: Path, source: Path, names: object, listed: bool
) -> None:
    manifest = {"name": "demo", "version": "1.0.0", "contextFileName": names}
    write(source / "gemini-extension.json", manifest)
    write(source / "GEMINI.md", "rules")
    done = alhena("extensions", "install", str(source), "--consent")
    assert ("context file: GEMINI.md" in done.out) is listed
