"""The documents say what the code does: names, defaults, examples and links."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.agent.delegation import open_agents
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import SessionLinks
from alhena.config.effective_settings import Place
from alhena.config.env_files import PROJECT_CREDENTIALS, is_admitted
from alhena.config.environment import sanitise_environment
from alhena.config.settings import EnvironmentRedaction, Settings, settings_of
from alhena.frontends.shared.arguments import parse_run, run_parser
from alhena.frontends.shared.mentions import MAX_SHELL_OUTPUT
from alhena.frontends.terminal import entry as prompt_history
from alhena.frontends.terminal.commands import COMMANDS, KEYS
from alhena.frontends.terminal.dialogs.approval import ANSWERS
from alhena.http.addresses import parse_endpoint, proxy_for
from alhena.memory.saved import SECTION
from alhena.models.catalogue import default_model
from alhena.system.search import MAX_LINE, TIME_LIMIT
from alhena.tools import output_store, reading
from alhena.tools.builtin import (
    background,
    list_directory,
    plan_mode,
    read_many_files,
    read_tool_output,
    run_shell_command,
    save_memory,
    search_file_content,
    web_fetch,
)
from alhena.tools.builtin.ask_user import AskUser
from alhena.tools.contract import ToolFailure
from alhena.tools.edit import proposal as editing
from alhena.tools.params import BUILT_IN, prepare, read_declaration
from alhena.tools.registry import ALIASES, ToolRegistry
from tests.support.each import for_each
from tests.support.sources import parsed_modules

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "alhena"
PAGES = (
    "acp",
    "agents",
    "auth",
    "checkpoints",
    "ci",
    "discovered-tools",
    "embedding",
    "extensions",
    "gateway",
    "headless",
    "hooks",
    "batch",
    "limits",
    "mcp",
    "memory",
    "models",
    "native-tools",
    "policy",
    "prompt",
    "sandbox",
    "sessions",
    "settings",
    "shell",
    "start",
    "telemetry",
    "terminal",
    "tools",
    "trace",
    "trust",
)


"""Told with the servers they are about."""


@cache
def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_of_items(text: str) -> list[str]:
    """The part of each list item before its colon."""
    return re.findall(r"^- (.*?): ", text, re.MULTILINE)


@pytest.fixture
def registry(project: Path) -> ToolRegistry:
    def no_model() -> Any:
        raise AssertionError("no model is asked")

    environ = {"HOME": str(project.parent / "home")}
    options = SessionSpec(place=Place(cwd=project, environ=environ, settings=Settings()))
    bench = open_toolset(
        options, SessionLinks(session_id="s", answering=no_model, delegate=open_agents)
    )
    bench.registry.register(AskUser(None))
    return bench.registry


def properties(schema: Any) -> Iterator[str]:
    """The names of all parameters, nested ones too."""
    if isinstance(schema, dict):
        for name, described in schema.get("properties", {}).items():
            yield name
            yield from properties(described)
        yield from properties(schema.get("items"))


def test_every_tool_has_a_section_and_every_section_is_a_tool(registry: ToolRegistry) -> None:
    assert set(sections(page("tools"))) == {tool.name for tool in registry.all_tools}
    assert len(registry.names) > 15


def test_every_parameter_is_told_with_whether_it_is_required(registry: ToolRegistry) -> None:
    for name, text in sections(page("tools")).items():
        tool = registry.get(name)
        assert tool is not None
        schema = tool.parameter_schema
        told = set(names_of_items(text))
        required = schema.get("required", ())
        assert told == {
            f"`{each}` *" if each in required else f"`{each}`" for each in schema["properties"]
        }, name
        assert set(properties(schema)) <= quoted(text), name


def test_other_names_of_tools_and_parameters_are_told(registry: ToolRegistry) -> None:
    described = sections(page("tools"))
    for name, text in described.items():
        names = quoted(text)
        other = {alias for alias, declared in ALIASES.items() if declared == name}
        _, _, last = text.partition("Other names:")
        assert quoted(last.split("\n\n")[0]) == other, name
        accepted = read_declaration(BUILT_IN, name)
        assert {*accepted.aliases, *accepted.accepted} <= names, name


def test_every_tool_has_an_example_that_it_takes(registry: ToolRegistry) -> None:
    for name, text in sections(page("tools")).items():
        (line,) = re.findall(r"^(?:[A-Z_]+=\S+ )?(alhena tools call .+)$", text, re.MULTILINE)
        words = shlex.split(line)
        assert words[3] == name
        args = json.loads(words[4]) if len(words) > 4 else {}
        tool = registry.get(name)
        assert tool is not None
        taken = prepare(name, tool.parameter_schema, args)
        assert not isinstance(taken, ToolFailure), (line, taken)
        assert set(taken) <= set(tool.parameter_schema["properties"]), line


@for_each(("name", "limits"), [
        ("read_file", (reading.MOST_LINES, MAX_LINE)),
        ("read_many_files", (read_many_files.MOST_CHARACTERS, read_many_files.MOST_PATTERNS)),
        ("list_directory", (list_directory.MOST_ENTRIES,)),
        ("glob", (list_directory.MOST_FILES,)),
        (
            "search_file_content",
            (search_file_content.MAX_MATCHES, MAX_LINE, int(TIME_LIMIT), search_file_content.MAX_CONTEXT),
        ),
        ("write_file", (editing.EDIT_LIMIT // 1_000_000,)),
        ("replace", (editing.EDIT_LIMIT // 1_000_000,)),
        (
            "run_shell_command",
            (run_shell_command.DELAY_MS, run_shell_command.MAX_DELAY_MS,
             run_shell_command.ShellLimits().background_file,
             int(Settings().tools.shell.inactivity_timeout)),
        ),
        ("read_background_output", (background.LINES, background.MAX_DELAY_MS)),
        ("read_tool_output", (read_tool_output.LIMIT,)),
        ("web_fetch", (web_fetch.MAX_URLS, web_fetch.REQUESTS, int(web_fetch.PERIOD))),
        ("save_memory", (save_memory.MAX_FACT,)),
        ("write_todos", (read_declaration(BUILT_IN, "write_todos").parameters["properties"]["todos"]["maxItems"],)),
        ("exit_plan_mode", (plan_mode.PLAN_LIMIT,)),
    ])  # fmt: skip
def test_limits_are_those_of_the_code(name: str, limits: tuple[int, ...]) -> None:
    told = re.findall(r"\d[\d,]*\d|\d", sections(page("tools"))[name])
    assert {f"{limit:,}" for limit in limits} <= set(told)


def test_what_holds_for_all_tools_is_that_of_the_code() -> None:
    opening = page("tools").partition("\n## ")[0]
    assert f"{Settings().tools.truncate_tool_output_threshold:,} characters" in opening
    assert SECTION in page("tools")


UNTOLD_KEYS = {
    *("tools.core", "tools.allowed", "mcp.allowed", "mcp.excluded", "mcpServers"),
    *("security.folderTrust.enabled", "security.disableAlwaysAllow"),
    "hooksConfig.notifications",
}
"""Keys that are known and do nothing yet: each is told of once it does."""


def keys(value: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of the settings with their defaults."""
    for field in msgspec.structs.fields(value):
        inner = getattr(value, field.name)
        name = prefix + field.encode_name
        if isinstance(inner, msgspec.Struct):
            yield from keys(inner, f"{name}.")
        else:
            yield name, inner


def test_the_settings_are_those_of_the_code_with_their_defaults() -> None:
    section = sections(page("settings"))["settings.json"]
    told = {
        key: default.strip("`")
        for names, default in re.findall(
            r"^- ((?:`[^`]+`(?:, )?)+)(?: \((.+?)\))?(?:: .+)?$", section, re.MULTILINE
        )
        for key in quoted(names)
    }
    known = dict(keys(Settings()))
    assert known.pop("model.name") is None
    assert told.pop("model.name") == default_model()
    defaults = {
        key: list(value) if isinstance(value, tuple) else value for key, value in known.items()
    }
    assert {key: json.loads(value) for key, value in told.items() if value} == {
        key: defaults[key] for key, value in told.items() if value
    }
    empty = (None, [], {})
    assert [key for key, value in told.items() if not value and defaults[key] not in empty] == []
    assert set(known) - set(told) <= UNTOLD_KEYS
    assert len(told) >= 10


def test_the_example_of_settings_is_one_that_is_read(project: Path) -> None:
    from alhena.config.checking import load_settings

    text = sections(page("settings"))["settings.json"]
    (example,) = re.findall(r"^```json.*\n((?s:.*?))^```$", text, re.MULTILINE)
    (project / "settings.json").write_text(example, encoding="utf-8")
    found = load_settings(project / "settings.json")
    assert found.general.default_approval_mode == "auto_edit"
    assert found.tools.exclude == ("web_fetch", "run_shell_command(git push)")
    assert settings_of({}, "x") == Settings()


UNTOLD_VARIABLES = {
    *("GEMINI_RESTRICTED_MODE", "GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"),
    "SYSTEMROOT",
}
"""Variables that are read and of no effect yet, or of no meaning to people."""


@cache
def environment_names() -> frozenset[str]:
    """Every variable that code takes from an environment by a written-out name."""
    found: set[str] = set()
    for _, tree in parsed_modules(r"\benviron\b"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                taken = node.func.value, node.args[:1]
                reads = node.func.attr == "get"
            elif isinstance(node, ast.Subscript):
                taken, reads = (node.value, [node.slice]), True
            else:
                continue
            place, names = taken
            last = place.attr if isinstance(place, ast.Attribute) else getattr(place, "id", "")
            for name in names:
                if reads and last == "environ" and isinstance(name, ast.Constant):
                    found.add(str(name.value))
    return frozenset(found)


def test_of_what_is_read_a_projects_env_file_says_only_who_pays() -> None:
    admitted = {name for name in environment_names() if is_admitted(name, "x", local=True)}
    assert admitted <= PROJECT_CREDENTIALS
    assert {"GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT"} <= admitted
    assert quoted(sections(page("settings"))[".env files"]) >= PROJECT_CREDENTIALS


def documented_variables() -> set[str]:
    items = names_of_items(sections(page("settings"))["Environment"])
    return {name for item in items for name in quoted(item)}


def test_every_variable_that_is_read_is_told_of() -> None:
    found = environment_names() - UNTOLD_VARIABLES
    assert {"GEMINI_MODEL", "HOME", "SSL_CERT_FILE", "GOOGLE_GEMINI_BASE_URL"} <= found
    assert found <= documented_variables()


def test_every_variable_that_is_told_of_is_read() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    proxies = {name for name in documented_variables() if name.endswith("_PROXY")}
    assert len(proxies) == 4
    for name in documented_variables() - proxies:
        assert f'"{name}"' in text, name
    there = parse_endpoint("https://a.example", "test")
    plain = parse_endpoint("http://a.example", "test")
    assert proxy_for(there, {"HTTPS_PROXY": "http://p"}) == "http://p"
    assert proxy_for(plain, {"HTTP_PROXY": "http://p"}) == "http://p"
    assert proxy_for(there, {"ALL_PROXY": "http://p"}) == "http://p"
    assert proxy_for(there, {"ALL_PROXY": "http://p", "NO_PROXY": "a.example"}) is None


def test_commands_in_a_workflow_see_only_what_is_harmless() -> None:
    given = {"HELLO": "1", "PATH": "/bin", "GITHUB_SHA": "abc"}
    off = EnvironmentRedaction(enabled=False)
    assert set(sanitise_environment(given, off).variables) == {"PATH"}
    assert "HELLO" in sanitise_environment({"HELLO": "1"}, off).variables


def test_the_flags_are_those_of_the_command() -> None:
    items = names_of_items(sections(page("settings"))["Flags of a run"])
    told = {name for item in items for name in quoted(item)}
    known = {option for action in run_parser()._actions for option in action.option_strings}
    assert told == known
    assert parse_run(["--policy", "a,b", "-p", "x"]).policy_paths == ("a", "b")


def listed(section: str) -> list[tuple[str, str]]:
    """The items `- NAME: TEXT` of a section."""
    found = re.findall(r"^- (.+?): (.+)$", section, re.MULTILINE)
    return [(name, text) for name, text in found]


def test_the_commands_and_keys_of_the_terminal_are_told() -> None:
    described = sections(page("terminal"))
    told = [re.findall(r"`/([^`]+)`", row[0]) for row in rows(described["Commands"])]
    assert told == [[command.name, *command.aliases] for command in COMMANDS]
    assert listed(described["Keys"]) == list(KEYS)
    answers = [name for name, _ in listed(described["Being asked"])]
    letters = dict.fromkeys(key for _, key, _ in ANSWERS if key != "v")  # behind the details
    assert answers == [*letters, "Esc"]
    assert f"{MAX_SHELL_OUTPUT:,}" in page("terminal")
    assert prompt_history.NAME in page("terminal")


def test_links_lead_to_pages_that_are_there() -> None:
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    assert pages >= {*PAGES, "index", "reference/index", "promises", "glossary", "licences"}
    assert set(re.findall(r"\]\((\w[\w-]*)\.md\)", page("index"))) >= set(PAGES)
    for link in re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / link).is_file(), link
    for name in sorted(pages):
        for link in re.findall(r"\]\(([^)\s]+)\)", outside_code(page(name))):
            target, _, section = link.partition("#")
            if "://" in target:
                continue
            path = (docs / name).parent.joinpath(target or f"{Path(name).name}.md").resolve()
            assert path.is_file(), (name, link)
            known = anchors(path.relative_to(docs).with_suffix("").as_posix()) if section else ()
            assert not section or section in known, (name, link)


def outside_code(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(name: str) -> set[str]:
    """Link target of a heading of a page."""
    titles = re.findall(r"^#+ (.*)$", outside_code(page(name)), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_long_results_are_kept_as_long_as_is_told() -> None:
    assert f"after {output_store.KEEP_DAYS} days" in page("settings")
