"""Servers written with the official SDK, over all three transports, beside another one."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.beside import Call, Story, beside
from tests.mcp.kit import SERVED, odd, rigged
from tests.support.ports import reserved_port

TRANSPORTS = ("stdio", "sse", "streamable-http")
GENERATION = {"stdio": None, "sse": ("url", "sse"), "streamable-http": ("httpUrl", "mcp")}


@contextmanager
def serving(program: str, how: str) -> Iterator[dict[str, Any]]:
    """The settings of a server that runs until the block is left."""
    reached = GENERATION[how]
    if reached is None:
        yield {"command": sys.executable, "args": [str(SERVED / program), "stdio"]}
        return
    started = partial(subprocess.Popen, stderr=subprocess.PIPE)
    command = [sys.executable, str(SERVED / program), how]
    with reserved_port() as port, started([*command, str(port)]) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if b"Uvicorn running" in line:
                    break
            key, path = reached
            kind = {"type": "sse"} if how == "sse" else {}
            yield {key: f"http://127.0.0.1:{port}/{path}", **kind}
        finally:
            process.kill()


KITCHEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "text": ("mcp_bad_echo", {"text": "grüß ✓\n"}, r'"output":"echo: grüß ✓\\n"'),
    "a name models are not told": ("mcp_bad_a.b:c-d/e", {"text": "x"}, '"output":"odd: x"'),
    "the same as it is declared": ("a.b_c-d_e", {"text": "x"}, '"output":"odd: x"'),
    "a long name": (f"mcp_bad_{'x' * 80}", {}, '"output":"long"'),
    "a long name as declared": (f"{'x' * 28}___{'x' * 32}", {}, '"output":"long"'),
    "an object": ("mcp_bad_norm", {"point": {"x": 1, "y": 2}}, '"output":"3"'),
    "wrong arguments": ("mcp_bad_norm", {"point": {"x": "1"}}, "params/point"),
    "a failure": ("mcp_bad_fail", {"reason": "too hot"}, "tool error .*fail.*too hot"),
    "roots": ("mcp_bad_roots", {}, '"output":"file:///'),
    "progress": ("mcp_bad_slow", {"steps": 3}, '"output":"done"'),
    "image": (
        "mcp_bad_plate",
        {},
        '"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo[^"]+"}',
    ),
    "audio": (
        "mcp_bad_plate",
        {},
        '"inlineData":{"mimeType":"audio/wav","data":"UklGRgQAAABXQVZF"}',
    ),
    "resource text": ("mcp_bad_plate", {}, r"\\na note\\n"),
    "resource data": (
        "mcp_bad_plate",
        {},
        '"mimeType":"application/pdf","data":"JVBERi0xLjcK[^"]+"',
    ),
    "resource link": ("mcp_bad_plate", {}, "Resource Link: menu at kitchen://menu"),
    "structured content": ("mcp_bad_numbers", {}, r'"output":"\{\\"sum\\":3\}"'),
    "a resource": ("read_mcp_resource", {"uri": "bad:kitchen://menu"}, r'"output":"soup\\n"'),
    "data": ("read_mcp_resource", {"uri": "bad:kitchen://scan"}, '"mimeType":"application/pdf"'),
    "resources": ("list_mcp_resources", {}, r"bad:kitchen://menu \| menu \| The menu"),
    "a template": ("list_mcp_resources", {}, r"bad:kitchen://dish/\{name\} \| dish \| A dish"),
    "one of it": ("read_mcp_resource", {"uri": "bad:kitchen://dish/soup"}, "a plate of soup"),
    "by its URI": ("read_mcp_resource", {"uri": "kitchen://dish/rice"}, "a plate of rice"),
    "a list that changes": ("mcp_bad_grow", {}, "there is another tool"),
}


def told_of(story: Story, table: dict[str, tuple[str, dict[str, Any], str]]) -> dict[str, str]:
    """Differences from the table."""
    return {
        what: story.seen(index)[:1_000]
        for index, (what, (_, _, said)) in enumerate(table.items())
        if not re.search(said, story.seen(index))
    }


@pytest.mark.requirement("MCP-01")
@pytest.mark.requirement("MCP-04")
@pytest.mark.parametrize("how", TRANSPORTS)
async def test_all_that_a_kitchen_has_is_served(project: Path, how: str) -> None:
    calls: list[Call] = [(name, args) for name, args, _ in KITCHEN.values()]
    with serving("kitchen.py", how) as entry:
        story = await beside(entry, project, *calls)
    assert told_of(story, KITCHEN) == {}
    assert not story.at_start
    assert "Say please" in story.report.instructions
    assert [each.name for each in story.report.prompts] == ["review"]
    assert [each.uri for each in story.report.resources] == ["kitchen://menu", "kitchen://scan"]


POINT = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}}
FILLED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # the parameters, what the model gives, what the server gets
    "shot": (
        {
            "properties": {
                "scale": {"enum": ["css", "device"], "default": "css"},
                "clip": {"type": "object", "properties": {"w": {"default": 5}, "h": {}}},
                "wrong": {"type": "string", "default": 7},
            },
            "required": ["scale"],
        },
        {"clip": {}},
        {"scale": "css", "clip": {"w": 5}},
    ),
    "refs": (
        {
            "$defs": {"P": POINT},
            "properties": {
                "p": {"$ref": "#/$defs/P"},
                "l": {"type": "array", "items": {"$ref": "#/$defs/P"}},
                "q": {"allOf": [{"$ref": "#/$defs/P"}], "default": {}},
                "u": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/P"}], "default": None},
                "v": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/P"}]},
                "w": {"$ref": "#/$defs/P"},
            },
        },
        {"p": {}, "l": [{}, {"n": 3}], "v": {}},
        {"p": {"n": 2}, "l": [{"n": 2}, {"n": 3}], "v": {"n": 2}, "q": {"n": 2}, "u": None},
    ),
    "either": (
        {
            "properties": {"a": {"default": 1}, "b": {}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {"b": 2},
        {"b": 2},
    ),
    "none": ({"properties": {"x": {"title": "X"}}, "required": ["x"]}, {"x": [1]}, {"x": [1]}),
}


@pytest.mark.requirement("MCP-03")
async def test_the_defaults_of_a_schema_are_filled_in(project: Path) -> None:
    heard = project / "heard"
    tools = [
        {"name": name, "inputSchema": {"type": "object", **schema}}
        for name, (schema, _, _) in FILLED.items()
    ]
    script = {"tools": tools, "heard": str(heard)}
    calls = [(f"mcp_bad_{name}", given) for name, (_, given, _) in FILLED.items()]
    await beside(odd(project, script), project, *calls)
    sent = [json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines()]
    got = {
        each["params"]["name"]: each["params"]["arguments"]
        for each in sent
        if each.get("method") == "tools/call"
    }
    assert got == {name: wanted for name, (_, _, wanted) in FILLED.items()}


async def test_templates_alone_are_enough_for_resources(project: Path) -> None:
    templates = [{"uriTemplate": "note://{id}", "name": "notes"}, {"uriTemplate": "{+any}"}]
    script = {
        "tools": [],
        "resources": [],
        "answers": {
            "resources/templates/list": {"resourceTemplates": templates},
            "resources/read": {"contents": [{"uri": "note://1", "text": "buy milk"}]},
        },
    }
    story = await beside(
        odd(project, script),
        project,
        ("list_mcp_resources", {}),
        ("read_mcp_resource", {"uri": "note://1"}),
        ("read_mcp_resource", {"uri": "other://1"}),
    )
    assert "bad:note://{id} | notes" in story.seen(0)
    assert "buy milk" in story.seen(1)
    assert "Resource not found" in story.seen(2)


SHAPES: dict[str, tuple[str, dict[str, Any], str]] = {
    "first": ("mcp_bad_first", {"n": 1}, r"first: \['n'\]"),
    "cyclic": (
        "mcp_bad_cyclic",
        {"tree": {"value": "a", "children": [{"value": "b", "children": []}]}},
        r"cyclic: \['tree'\]",
    ),
    "cyclic and wrong": ("cyclic", {"tree": {"children": [{"value": 5}]}}, "params/tree/children"),
    "deep": ("mcp_bad_deep", {"d": {"d": {"d": {}}}}, r"deep: \['d'\]"),
    "keywords": ("keywords", {"when": None, "one": 4, "kind": "fixed"}, "'kind', 'one', 'when'"),
    "keywords and wrong": ("keywords", {"one": 2}, '"error":"'),
    "another script": ("lang_____", {}, "lang/"),
    "very long": (f"{'y' * 28}___{'y' * 32}", {}, "y{128}: "),
    "storm": ("mcp_bad_storm", {}, "storm: "),
    "typeless": ("mcp_bad_typeless", {"x": [1, "a"]}, r"typeless: \['x'\]"),
}


@pytest.mark.requirement("MCP-02")
@pytest.mark.requirement("MCP-03")
@pytest.mark.parametrize("how", ["stdio", "streamable-http"])
async def test_odd_lists_in_pages_that_lead_back_are_used_as_far_as_they_go(
    project: Path, how: str
) -> None:
    calls: list[Call] = [(name, args) for name, args, _ in SHAPES.values()]
    with serving("odd_shapes.py", how) as entry:
        story = await beside(entry, project, *calls)
    assert told_of(story, SHAPES) == {}
    (circle,) = story.at_start
    assert "its list of tools leads back to a page that was there before" in circle
    assert len(story.report.tools) == 9
    assert len(json.dumps(story.generator.requests[0].config.tools, default=repr)) < 500_000


@pytest.mark.parametrize("how", ["streamable-http"])
async def test_a_call_that_is_given_up_leaves_the_connection_as_it_was(
    project: Path, how: str
) -> None:
    with serving("odd_shapes.py", how) as entry:
        async with rigged({"s": entry}, project) as rig:
            server = rig.server("s")
            sleeping = asyncio.create_task(server.call_tool("sleep", {}))
            first = await server.call_tool("first", {"n": 1})
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping
            assert (await server.call_tool("first", {"n": 1})) == first
            assert server.notes == ()


def test_the_tables_say_what_they_claim() -> None:
    """Each row is a call and a pattern that does not match just anything."""
    for name, args, said in (*KITCHEN.values(), *SHAPES.values()):
        assert name
        assert isinstance(args, dict)
        assert not re.search(said, '[{"functionResponse":{"response":{"output":""}}}]')
