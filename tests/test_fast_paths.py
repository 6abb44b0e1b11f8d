"""The fast paths load exactly the modules they need; budgets are sets of modules, not times."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.startup import filled

from tests.mcp.kit import odd, tool
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text

PROBE = """
import json, sys
before = set(sys.modules)
sys.argv = ["alhena", *{arguments!r}]
sys.stdout = open("stdout.txt", "w")
{body}
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.__stdout__)
"""
COMMAND = """
from alhena.__main__ import main
try:
    main()
except SystemExit:
    pass
"""
HEAVY = {
    *("rich", "prompt_toolkit", "mcp", "pydantic", "tree_sitter", "opentelemetry", "httpx2"),
    *("httpcore2", "anyio", "google", "requests", "yaml", "markdown_it", "tomli_w"),
}


def loaded(*arguments: str, body: str = COMMAND, **environ: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-S", "-c", PROBE.format(arguments=list(arguments), body=body)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout))


def rooms(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "alhena"}


def third_party(modules: set[str]) -> set[str]:
    found = {name.partition(".")[0] for name in modules}
    return {name for name in found if name not in sys.stdlib_module_names and name != "alhena"}


def test_version_loads_nothing_but_the_version():
    modules = loaded("--version")
    assert rooms(modules) == {"alhena", "alhena.__main__", "alhena.version"}
    assert third_party(modules) == set()
    assert not modules & {"argparse", "asyncio", "typing", "re", "json"}


def test_importing_the_library_loads_no_third_party_package():
    modules = loaded(body="import alhena")
    assert rooms(modules) == {"alhena", "alhena.version"}
    assert third_party(modules) == set()


def test_a_program_that_makes_an_agent_loads_no_event_loop_and_no_session():
    body = (
        "from alhena import Agent; from alhena.models import Gemini; "
        'Agent(Gemini("m", api_key="x"), isolated=True)'
    )
    modules = loaded(body=body)
    assert third_party(modules) == {"msgspec", "typing_extensions"}
    assert not modules & {"asyncio", "ssl", "alhena.agent.runner", "alhena.session.recording"}


PATHS = {
    "help": ["--help"],
    "policy explain": ["policy", "explain", "--tool", "read_file", "--args", "{}", "--json"],
    "tools list": ["tools", "list", "--json"],
}
PINNED = Path(__file__).parent / "fast_paths.json"
"""The exact modules of this package that each path loads. After a change that is meant, write it
anew: `python -m tests.test_fast_paths`."""


def difference(name: str, modules: set[str]) -> dict[str, list[str]]:
    pinned = set(json.loads(PINNED.read_text(encoding="utf-8"))[name])
    found = rooms(modules)
    return {"more": sorted(found - pinned), "fewer": sorted(pinned - found)}


@pytest.mark.parametrize("name", PATHS)
def test_what_asks_no_model_loads_no_event_loop_and_no_http(name: str):
    modules = loaded(*PATHS[name])
    assert not modules & (HEAVY | {"asyncio", "ssl", "regex", "jsonschema_rs", "h11"})
    assert third_party(modules) <= {"msgspec"}
    assert difference(name, modules) == {"more": [], "fewer": []}
    assert Path("stdout.txt").read_text(encoding="utf-8")


def prompt(server: ScriptedServer) -> set[str]:
    return loaded(
        "-p", "hi", GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url, GEMINI_MODEL="m"
    )


def first_request(server: ScriptedServer) -> set[str]:
    server.reply(sse(text("hello")))
    return prompt(server)


def read_file_turn(server: ScriptedServer) -> set[str]:
    """A turn that calls read_file and the turn after it."""
    Path("a.txt").write_text("one\n", encoding="utf-8")
    server.reply(sse(chunk(call("read_file", {"file_path": "a.txt"}), finish="STOP")))
    return first_request(server)


def test_a_prompt_reaches_its_first_request_with_two_third_party_packages(server: ScriptedServer):
    modules = first_request(server)
    assert Path("stdout.txt").read_text(encoding="utf-8") == "hello\n"
    assert third_party(modules) == {"msgspec", "h11"}
    assert modules & {"json", "difflib", "tempfile"} == set()
    assert difference("first request", modules) == {"more": [], "fewer": []}


UNTIL_CONNECTION = """
from alhena.__main__ import _import_msgspec, main
_import_msgspec()
from alhena.http import early
def end(*_place):
    raise SystemExit
early.prepare_connection = end
try:
    main()
except SystemExit:
    pass
"""


def test_the_connection_begins_before_the_event_loop_is_loaded():
    modules = loaded("-p", "hi", body=UNTIL_CONNECTION, GEMINI_API_KEY="x", GEMINI_MODEL="m")
    assert "alhena.models.providers.gemini_api" in modules
    assert not modules & {"alhena.http.client", "alhena.agent", "alhena.tools.contract"}
    assert not modules & {"asyncio", "concurrent", "inspect", "logging", "ssl", "subprocess"}
    assert third_party(modules) == {"msgspec"}


def test_a_home_with_agents_skills_commands_and_extensions_loads_their_readers_alone(
    server: ScriptedServer, home: Path
):
    before = first_request(server)
    filled(home, commands=1, skills=1, agents=2, extensions=1)
    more = first_request(server) - before
    assert {name for name in more if name.partition(".")[0] == "alhena"} == {
        "alhena.agent.subagents.files",
        "alhena.config.checking",
        "alhena.config.extension_manifest",
        "alhena.config.layers",
        "alhena.config.reference_keys",
        "alhena.agent.subagents.remote",
        "alhena.config.env_files",
        "alhena.config.extensions",
        "alhena.skills",
        "alhena.skills.files",
        "alhena.system.encoding",
    }
    assert not more & (HEAVY | {"json", "hashlib", "html", "alhena.commands"})
    request = json.dumps(server.requests[-1].json)
    assert all(each in request for each in ("agent-0", "agent-1", "context 0"))


def test_a_turn_that_reads_a_file_loads_the_pinned_modules(server: ScriptedServer):
    modules = read_file_turn(server)
    assert "one" in json.dumps(server.requests[-1].json["contents"][-1])
    assert third_party(modules) <= {"msgspec", "h11", "jsonschema_rs"}
    assert difference("read_file turn", modules) == {"more": [], "fewer": []}


def test_a_run_with_an_mcp_server_loads_nothing_of_the_sdks_server(
    server: ScriptedServer, home: Path, project: Path
):
    servers = {"one": odd(project, {"tools": [tool("of_one")]})}
    settings = {"mcpServers": servers, "mcp": {"autoAllowInHeadless": True}}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    modules = first_request(server)
    assert "of_one" in json.dumps(server.requests[-1].json["tools"])
    assert "mcp.client.session" in modules
    assert not {name for name in modules if name.startswith(("mcp.server", "starlette", "httpx2"))}


def pin() -> None:
    """Writes down what each path loads now."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, ScriptedServer() as server:
        os.chdir(folder)
        os.environ["HOME"] = folder
        found = {name: sorted(rooms(loaded(*line))) for name, line in PATHS.items()}
        found["first request"] = sorted(rooms(first_request(server)))
        found["read_file turn"] = sorted(rooms(read_file_turn(server)))
    PINNED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    pin()
