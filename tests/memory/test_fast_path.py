"""Memory files on the way to the first request: the parser is loaded where an import may be."""

from pathlib import Path

from tests.memory.kit import put
from tests.support.server import ScriptedServer, sse, text
from tests.test_fast_paths import loaded


def modules(server: ScriptedServer) -> set[str]:
    server.reply(sse(text("hello")))
    return loaded(
        *("-p", "hi", "--skip-trust"),
        GEMINI_API_KEY="x",
        GOOGLE_GEMINI_BASE_URL=server.url,
        GEMINI_MODEL="m",
    )


def memory_in_request(server: ScriptedServer) -> str:
    return str(server.requests[-1].json["contents"])


def test_without_an_at_sign_nothing_of_imports_is_loaded(server: ScriptedServer, project: Path):
    put(project, "GEMINI.md", "Use tabs. `code`")
    found = modules(server)
    assert "Use tabs." in memory_in_request(server)
    assert not found & {"markdown_it", "alhena.memory.imports"}


def test_an_address_needs_no_parser(server: ScriptedServer, project: Path):
    put(project, "GEMINI.md", "Ask me@example.org.")
    assert "markdown_it" not in modules(server)
    assert "me@example.org" in memory_in_request(server)


def test_an_import_loads_the_parser_and_is_in_the_request(server: ScriptedServer, project: Path):
    put(project, "GEMINI.md", "@./more.md")
    put(project, "more.md", "And tests.")
    assert "markdown_it" in modules(server)
    assert "And tests." in memory_in_request(server)
