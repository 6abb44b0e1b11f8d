from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.registry import (
    ALIASES,
    ToolOrigin,
    ToolRegistry,
    all_names,
    declared_name,
    is_declarable,
)
from tests.scheduler.kit import SmallTool
from tests.support.each import for_each


def test_every_alias_leads_to_a_declared_name_that_lists_it():
    for alias, declared in ALIASES.items():
        assert declared not in ALIASES
        assert declared_name(alias) == declared
        assert alias in all_names(declared)
    assert all_names("replace") == ("replace", "edit", "EditTool")
    assert all_names("my_own") == ("my_own",)


@for_each(
    ("alias", "declared"),
    [
        ("edit", "replace"),
        ("shell", "run_shell_command"),
        ("ls", "list_directory"),
        ("grep", "search_file_content"),
        ("ripGrep", "search_file_content"),
        ("grep_search", "search_file_content"),
        ("memory", "save_memory"),
        ("web_search", "google_web_search"),
        ("invoke_agent", "delegate_to_agent"),
        ("ReadFileTool", "read_file"),
        ("ShellTool", "run_shell_command"),
    ],
)
@pytest.mark.requirement("TOOLS-06")
def test_tools_are_found_under_accepted_names(alias, declared):
    tool = SmallTool(declared)
    registry = ToolRegistry([SmallTool("other"), tool])
    assert registry.get(alias) is tool
    assert registry.get(declared) is tool
    assert registry.get(alias + "x") is None


def test_a_tool_of_that_very_name_comes_before_an_alias():
    own = SmallTool("shell")
    registry = ToolRegistry([SmallTool("run_shell_command"), own])
    assert registry.get("shell") is own


@pytest.mark.requirement("TOOLS-06")
def test_a_tool_of_a_server_is_found_under_its_qualified_names():
    bare, full = SmallTool("search"), SmallTool("docs__read")
    registry = ToolRegistry()
    registry.register(bare, origin=ToolOrigin.MCP, server="docs")
    registry.register(full, origin=ToolOrigin.MCP, server="docs")
    for name in ("search", "docs__search", "mcp_docs_search"):
        assert registry.get(name) is bare
    for name in ("docs__read", "mcp_docs_read"):
        assert registry.get(name) is full
    assert registry.get("other__search") is None
    entry = registry.find("search")
    assert entry is not None
    assert (entry.server, entry.names[0]) == ("docs", "search")


@pytest.mark.requirement("TOOLS-06")
def test_a_name_that_two_tools_accept_means_neither_of_them():
    registry = ToolRegistry()
    for server in ("docs", "wiki"):
        tool = SmallTool(f"{server}__search")
        registry.register(tool, origin=ToolOrigin.MCP, server=server, accepted=("find",))
    assert registry.get("find") is None
    assert registry.get("docs__search") is not None
    said = registry.suggestions("find")
    assert '"docs__search" or "wiki__search"' in said
    assert not registry.unregister("find")


@pytest.mark.requirement("TOOLS-06")
def test_registering_a_name_twice_is_said_and_the_later_tool_is_used():
    first, second = SmallTool("a"), SmallTool("a")
    registry = ToolRegistry([first])
    warning = registry.register(second)
    assert warning == 'Tool "a" was registered twice; the later one is used.'
    assert registry.get("a") is second
    assert registry.names == ("a",)
    assert registry.register(second) is None


@pytest.mark.requirement("TOOLS-06")
def test_an_unregistered_tool_is_gone():
    registry = ToolRegistry([SmallTool("replace")])
    assert registry.unregister("edit") is True
    assert registry.unregister("replace") is False
    assert registry.get("replace") is None


@pytest.mark.requirement("TOOLS-06")
def test_declarations_are_of_all_tools_or_of_those_asked_for_in_one_order():
    registry = ToolRegistry([SmallTool("glob"), SmallTool("replace"), SmallTool("read_file")])
    assert [d.name for d in registry.function_declarations()] == ["glob", "replace", "read_file"]
    chosen = registry.function_declarations(["read_file", "edit", "nothing"])
    assert [d.name for d in chosen] == ["replace", "read_file"]
    assert chosen[0].parameters_json_schema == registry.get("replace").parameter_schema


@pytest.mark.requirement("TOOLS-06")
def test_built_in_tools_come_before_discovered_ones_before_those_of_servers():
    registry = ToolRegistry()
    registry.register(SmallTool("zeta"), origin=ToolOrigin.MCP, server="b")
    registry.register(SmallTool("eta"), origin=ToolOrigin.MCP, server="a")
    registry.register(SmallTool("found"), origin=ToolOrigin.DISCOVERED)
    registry.register(SmallTool("built"))
    assert registry.names == ("built", "found", "eta", "zeta")
    assert [tool.name for tool in registry.all_tools] == ["built", "eta", "found", "zeta"]


def test_tools_of_servers_keep_their_order_whenever_they_come_and_go():
    keys = [("b", "zeta"), ("a", "eta"), ("b", "alpha"), ("a", "beta")]
    expected = ("beta", "eta", "alpha", "zeta")
    for order in permutations(keys):
        registry = ToolRegistry()
        for server, name in order:
            registry.register(SmallTool(name), origin=ToolOrigin.MCP, server=server)
        assert registry.names == expected
        server, name = order[0]
        registry.unregister(name)
        registry.register(SmallTool(name), origin=ToolOrigin.MCP, server=server)
        assert registry.names == expected


@pytest.mark.requirement("TOOLS-06")
def test_all_tools_are_sorted_by_display_name_without_regard_to_case():
    tools = [SmallTool("a"), SmallTool("b"), SmallTool("c")]
    for tool, shown in zip(tools, ("beta", "Alpha", "gamma"), strict=True):
        tool.display_name = shown
    assert [tool.display_name for tool in ToolRegistry(tools).all_tools] == [
        "Alpha",
        "beta",
        "gamma",
    ]


@pytest.mark.requirement("TOOLS-06")
@pytest.mark.parametrize("name", ["replace", "edit", "EditTool", "_replace"])
def test_an_excluded_tool_is_hidden_under_all_its_names(name):
    registry = ToolRegistry([SmallTool("replace"), SmallTool("glob")], exclude=[name])
    for asked in ("replace", "edit", "EditTool"):
        assert registry.get(asked) is None
    assert registry.names == ("glob",)
    assert [d.name for d in registry.function_declarations(["replace"])] == []
    assert registry.suggestions("replace") == 'Tool "replace" not found. Did you mean "glob"?'


@pytest.mark.requirement("TOOLS-06")
@pytest.mark.parametrize("declared", ["clean", "_clean", "__clean"])
@pytest.mark.parametrize("said", ["clean", "_clean", "__clean"])
def test_leading_underscores_make_no_difference_to_an_exclusion(declared, said):
    registry = ToolRegistry([SmallTool(declared), SmallTool("glob")], exclude=[said])
    assert registry.names == ("glob",)
    assert registry.get(declared) is None
    later = ToolRegistry([SmallTool(declared), SmallTool("glob")])
    later.hide([said])
    assert later.names == ("glob",)
    later.hide(())
    assert later.names == (declared, "glob")


@pytest.mark.requirement("TOOLS-06")
def test_a_tool_of_a_server_is_excluded_by_its_bare_and_its_qualified_name():
    for name in ("search", "docs__search", "mcp_docs_search"):
        registry = ToolRegistry(exclude=[name])
        registry.register(SmallTool("search"), origin=ToolOrigin.MCP, server="docs")
        assert registry.get("search") is None
    registry = ToolRegistry()
    registry.register(SmallTool("search"), origin=ToolOrigin.MCP, server="docs")
    registry.exclude(["docs__search"])
    assert registry.names == ()


def test_a_name_that_starts_with_a_digit_is_declared_with_an_underscore_and_maps_back():
    tool = SmallTool("3d_view")
    registry = ToolRegistry([tool])
    assert registry.names == ("_3d_view",)
    assert [d.name for d in registry.function_declarations()] == ["_3d_view"]
    assert registry.get("_3d_view") is tool
    assert registry.get("3d_view") is tool


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 64, "a/b", "a\n", "٣"])
def test_a_name_that_cannot_be_declared_is_refused(name):
    assert not is_declarable(name)
    with pytest.raises(ValueError, match="cannot be named"):
        ToolRegistry([SmallTool(name)])


@given(st.text("ab_.-9 é", max_size=6))
def test_declarable_names_are_those_of_the_documented_pattern(name):
    import re

    assert is_declarable(name) == bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", name))


@pytest.mark.requirement("TOOLS-06")
def test_suggestions_name_up_to_three_of_the_nearest():
    registry = ToolRegistry([SmallTool(n) for n in ("read_file", "write_file", "glob", "replace")])
    assert registry.suggestions("read_fil") == (
        'Tool "read_fil" not found. Did you mean one of: "read_file", "write_file", "replace"?'
    )
    assert ToolRegistry([SmallTool("a")]).suggestions("b") == (
        'Tool "b" not found. Did you mean "a"?'
    )
    assert ToolRegistry().suggestions("b") == 'Tool "b" not found. There are no tools.'
    assert len(registry.suggestions("x" * 10**6)) < 300
