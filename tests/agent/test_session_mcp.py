"""MCP servers in a session: what the model is told, through the one gate, and what is asked."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from alhena.events import RunStartedEvent, ToolOutputEvent
from alhena.policy.model import PolicyOutcome, PolicyRule
from tests.agent.kit import agent, conforming, events_of
from tests.agent.serving import ALLOW_ALL, answers, declared, instruction, settings, turns
from tests.mcp.kit import kitchen, odd, served, tool
from tests.support.command import alhena
from tests.support.ports import reserved_port
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


@pytest.mark.requirement("MCP-01")
@pytest.mark.requirement("MCP-04")
@pytest.mark.requirement("MCP-05")
async def test_the_first_request_declares_the_tools_and_a_call_runs_through_the_gate(
    project: Path,
) -> None:
    generator = turns(("plate", {}), ("slow", {"steps": 1}))
    running = agent(generator, cwd=project, settings=settings({"k": kitchen()}), policy=ALLOW_ALL)
    async with running:
        events, error = await events_of(running, "go")
    assert error is None
    assert {"echo", "a.b_c-d_e", "plate", "list_mcp_resources"} <= set(declared(generator))
    assert "Say please before you use the echo tool." in instruction(generator)
    plate, slow = answers(events)
    assert plate.display == (
        "first\n[Image: image/png]\n[Audio: audio/wav]\na note\n"
        "[Embedded Resource: application/pdf]\n[Link to menu: kitchen://menu]"
    )
    response = generator.seen(1)[-1]["parts"]
    assert response[0]["functionResponse"]["response"]["output"].split("\n") == [
        "first",
        "[Tool 'plate' provided the following image data with mime-type: image/png]",
        "[Tool 'plate' provided the following audio data with mime-type: audio/wav]",
        "a note",
        "[Tool 'plate' provided the following embedded resource with mime-type: application/pdf]",
        "Resource Link: menu at kitchen://menu",
    ]
    assert [part["inlineData"]["mimeType"] for part in response[1:] if "inlineData" in part] == [
        *("image/png", "audio/wav", "application/pdf")
    ]
    label = f"[media of the result of plate, call {response[0]['functionResponse']['id']}]"
    assert [part["text"] for part in response[1:] if "text" in part] in ([], [label])
    assert slow.status == "success"
    assert [event.text for event in events if isinstance(event, ToolOutputEvent)] == [
        "1 of 1: step 1\n"
    ]
    assert conforming(generator)


async def test_a_call_by_a_name_of_two_tools_reaches_neither_and_is_told_the_exact_names(
    project: Path,
) -> None:
    entries = {
        "a": odd(project, {"tools": [tool("b_c")]}, "a"),
        "a_b": odd(project, {"tools": [tool("c")]}, "a_b"),
    }
    generator = turns(("mcp_a_b_c", {}))
    running = agent(generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL)
    async with running:
        events, _ = await events_of(running, "go")
    (answer,) = answers(events)
    assert answer.status == "error"
    assert 'exact name: "b_c" or "c".' in str(generator.seen(1)[-1]["parts"])


@pytest.mark.requirement("MCP-03")
async def test_untyped_tools_are_declared_as_any_value_or_skipped_and_named(project: Path) -> None:
    listed = {"tools": [tool("typeless", a={"title": "A"}, b={"enum": ["x"]}), tool("fine")]}
    entries = {"odd": odd(project, listed)}
    generator = turns(("typeless", {"a": [1], "b": "x"}))
    async with agent(
        generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL
    ) as running:
        events, _ = await events_of(running, "go")
    declarations = generator.requests[0].config.tools[0].function_declarations
    (schema,) = [each.parameters_json_schema for each in declarations if each.name == "typeless"]
    assert schema["properties"] == {"a": {"title": "A"}, "b": {"enum": ["x"], "type": "string"}}
    assert [each.status for each in answers(events)] == ["success"]
    made = settings(entries, mcp={"skipUntyped": True})
    generator = turns(("fine", {}))
    async with agent(generator, cwd=project, settings=made, policy=ALLOW_ALL) as running:
        events, _ = await events_of(running, "go")
    assert "fine" in declared(generator)
    assert "typeless" not in declared(generator)
    (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
    told = "\n".join(started.notices)
    assert "'typeless' is left out: its schema does not say the type of properties.a" in told


@pytest.mark.requirement("MCP-03")
async def test_tools_that_are_left_out_are_named_to_the_person_and_others_go_on(
    project: Path,
) -> None:
    deep: dict[str, Any] = {"type": "object", "properties": {}}
    for _ in range(90):
        deep = {"type": "object", "properties": {"d": deep}}
    script = {
        "tools": [
            tool("fine"),
            tool("typeless", a={}),
            {"name": "deep", "inputSchema": deep},
            {"name": "text", "inputSchema": {"type": "string"}},
            {
                **tool("const"),
                "inputSchema": {
                    "type": "object",
                    "properties": {"c": {"type": "string", "const": 1}},
                },
            },
        ]
    }
    generator = turns(("deep", {"d": {"d": {}}}))
    entries = {"odd": odd(project, script)}
    running = agent(generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL)
    async with running:
        events, error = await events_of(running, "go")
    assert error is None
    assert {"fine", "deep", "const", "typeless"} <= set(declared(generator))
    assert "text" not in declared(generator)
    (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
    told = "\n".join(started.notices)
    assert "typeless" not in told
    assert "'odd': Tool \"text\" is left out: the parameters are not an object" in told
    (answer,) = answers(events)
    assert answer.status == "success"
    assert conforming(generator)


async def test_in_a_folder_that_is_not_trusted_servers_start_elsewhere(
    project: Path, home: Path
) -> None:
    generator = turns(("here", {}))
    running = agent(generator, cwd=project, settings=settings({"k": kitchen()}), policy=ALLOW_ALL)
    async with running:
        events, _ = await events_of(running, "go")
    assert answers(events)[0].display == str(home)


async def test_without_a_person_what_needs_one_is_not_even_declared(project: Path) -> None:
    entries = {"s": odd(project, {"tools": [tool("a"), tool("b")]})}
    rule = PolicyRule(decision=PolicyOutcome.ALLOW, priority=500, mcp_name="s", tool_names=("a",))
    generator = turns(("a", {}), ("mcp_s_b", {}))
    running = agent(generator, cwd=project, settings=settings(entries), policy=(rule,))
    async with running:
        events, _ = await events_of(running, "go")
    assert "a" in declared(generator)
    assert "b" not in declared(generator)
    assert [each.status for each in answers(events)] == ["success", "error"]


@pytest.mark.requirement("MCP-08")
async def test_hooks_are_told_of_the_server_and_nothing_secret(project: Path) -> None:
    heard = project / "heard.json"
    entry = odd(project, {"tools": [tool("a/b")]})
    entry["args"] += ["--api-key=verysecret", "--token", "alsosecret", "plain"]
    entry["env"] = {"KEY": "thirdsecret"}
    entry["url"] = ""  # as a variable that is not set leaves it
    hook = {"BeforeTool": [{"hooks": [{"command": f"cat > {heard}"}]}]}
    generator = turns(("a_b", {}))
    running = agent(
        generator,
        cwd=project,
        settings=settings({"s": entry}),
        policy=ALLOW_ALL,
        hooks={"hooks": hook},
    )
    async with running:
        await events_of(running, "go")
    told = json.loads(heard.read_text(encoding="utf-8"))
    assert told["tool_name"] == "a_b"
    context = told["mcp_context"]
    assert context["server_name"] == "s"
    assert context["tool_name"] == "a/b"
    assert context["command"] == sys.executable
    assert "url" not in context
    assert context["args"][2:] == ["--api-key=[redacted]", "--token", "[redacted]", "plain"]
    assert "secret" not in heard.read_text(encoding="utf-8")


@pytest.mark.requirement("MCP-08")
async def test_hooks_are_told_of_the_url_of_a_server_and_nothing_secret(project: Path) -> None:
    heard = project / "heard.json"
    hook = {"BeforeTool": [{"hooks": [{"command": f"cat > {heard}"}]}]}
    with reserved_port() as port, served("streamable-http", port) as url:
        secret = url.replace("http://", "http://me:verysecret@")
        entry = {"httpUrl": f"{secret}/mcp?key=alsosecret", "headers": {"X-Key": "thirdsecret"}}
        running = agent(
            turns(("echo", {"text": "x"})),
            cwd=project,
            settings=settings({"s": entry}),
            policy=ALLOW_ALL,
            hooks={"hooks": hook},
        )
        async with running:
            await events_of(running, "go")
    told = json.loads(heard.read_text(encoding="utf-8"))
    context = {"server_name": "s", "tool_name": "echo", "url": f"{url}/mcp"}
    assert told["mcp_context"] == context
    assert "secret" not in json.dumps(told)


async def test_a_tool_that_comes_while_the_run_is_at_work_is_declared_with_the_next_request(
    project: Path,
) -> None:
    lists = project / "lists.json"
    lists.write_text(json.dumps([tool("become")]), encoding="utf-8")
    script = {
        "list_from": str(lists),
        "does": {"become": {"do": "become", "tools": [tool("become"), tool("late")]}},
    }
    generator = ScriptedGenerator(
        [chunk(call("become", {}, id="c1"), finish="STOP")], [text("one")], [text("two")]
    )
    running = agent(
        generator, cwd=project, settings=settings({"s": odd(project, script)}), policy=ALLOW_ALL
    )
    async with running:
        await events_of(running, "go")
        while running.toolset.registry.find("late") is None:
            await asyncio.sleep(0.01)
        await events_of(running, "again")
    assert "late" not in declared(generator, 0)
    assert "late" in declared(generator, 2)


async def test_resources_are_listed_and_read(project: Path) -> None:
    generator = turns(
        ("list_mcp_resources", {}),
        ("read_mcp_resource", {"uri": "k:kitchen://menu"}),
        ("read_mcp_resource", {"uri": "kitchen://scan"}),
        ("read_mcp_resource", {"uri": "kitchen://none"}),
    )
    running = agent(generator, cwd=project, settings=settings({"k": kitchen()}))
    async with running:
        events, _ = await events_of(running, "go")
    listing, menu, scan, none = answers(events)
    assert listing.display == "Listed 3 resources."
    output = generator.seen(1)[-1]["parts"][0]["functionResponse"]["response"]["output"]
    assert "- k:kitchen://menu | menu | The menu.\n" in output
    assert generator.seen(2)[-1]["parts"][0]["functionResponse"]["response"] == {"output": "soup\n"}
    assert menu.status == scan.status == "success"
    assert generator.seen(3)[-1]["parts"][-1]["inlineData"]["mimeType"] == "application/pdf"
    assert none.error_type == "mcp_resource_not_found"


async def test_an_interactive_session_does_not_wait_for_servers(project: Path) -> None:
    entries = {"slow": odd(project, {"silent": True})}
    running = agent(
        ScriptedGenerator([text("at once")]),
        cwd=project,
        settings=settings(entries),
        wait_for_servers=False,
    )
    async with running:
        events, error = await events_of(running, "go")
        assert error is None
        servers = running.toolset.servers
        assert servers is not None
        assert servers.reports()[0].state == "connecting"
    (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
    assert started.notices == ()


async def test_the_first_prompt_waits_for_a_server_that_is_connecting(project: Path) -> None:
    gate = project / "gate"
    os.mkfifo(gate)
    entries = {"slow": odd(project, {"tools": [tool("late")], "gate": str(gate)})}
    generator = ScriptedGenerator([text("one")], [text("two")])
    running = agent(generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL)
    async with running:
        control = running.toolset.server_control
        assert control is not None
        assert control.connecting == ("slow",)
        asked = asyncio.create_task(running.ask("go"))
        await asyncio.to_thread(gate.write_bytes, b"")  # returns when the server reads
        await asked
        await running.ask("again")
    assert "late" in declared(generator, 0)
    assert declared(generator, 1) == declared(generator, 0)


async def test_the_setting_may_be_longer_than_the_usual_wait(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alhena.mcp.servers.FIRST_PROMPT_S", 0.05)
    gate = project / "gate"
    os.mkfifo(gate)
    slow = odd(project, {"tools": [tool("late")], "gate": str(gate)})
    del slow["timeout"]
    generator = ScriptedGenerator([text("one")])
    made = settings({"slow": slow}, mcp={"startupWait": 30})
    async with agent(generator, cwd=project, settings=made, policy=ALLOW_ALL) as running:
        asked = asyncio.create_task(running.ask("go"))
        await asyncio.wait({asked}, timeout=2)
        assert not asked.done()
        await asyncio.to_thread(gate.write_bytes, b"")
        await asked
    assert "late" in declared(generator, 0)


async def test_the_wait_ends_with_the_setting_and_whenever_a_person_wants(project: Path) -> None:
    entries = {"slow": odd(project, {"silent": True})}
    for seconds, stops in ((0.2, False), (30, True)):
        running = agent(
            ScriptedGenerator([text("without")]),
            cwd=project,
            settings=settings(entries, mcp={"startupWait": seconds}),
        )
        async with running:
            control = running.toolset.server_control
            assert control is not None
            assert not control.stop_startup_wait()
            asked = asyncio.create_task(running.ask("go"))
            if stops:
                while not control.stop_startup_wait():
                    await asyncio.sleep(0.01)
            assert await asked == "without"
            assert control.connecting == ("slow",)
            assert not control.stop_startup_wait()


async def test_a_server_is_not_said_to_be_late_before_it_could_be_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("alhena.mcp.opening._import_sdk", load)
    entries = {"slow": {**odd(project, {"tools": [tool("late")]}), "timeout": 100}}
    made = settings(entries, mcp={"startupWait": 0.2})
    async with agent(ScriptedGenerator([text("without")]), cwd=project, settings=made) as running:
        assert await running.ask("go") == "without"
        told = [each for each in running.toolset.warnings if "'slow'" in each]
    assert told == [
        "MCP server 'slow' is not connected after 0.2 s; the prompt goes without its tools."
    ]


async def test_a_server_that_reconnects_changes_nothing_of_what_is_declared(project: Path) -> None:
    entries = {
        "b": odd(project, {"tools": [tool("y"), tool("x")]}, "b"),
        "a": odd(project, {"tools": [tool("z")]}, "a"),
    }
    generator = ScriptedGenerator([text("one")], [text("two")])
    running = agent(generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL)
    async with running:
        await running.ask("go")
        control = running.toolset.server_control
        assert control is not None
        await control.refresh()
        await running.ask("again")
    assert [name for name in declared(generator) if len(name) == 1] == ["z", "x", "y"]
    assert generator.requests[1].config == generator.requests[0].config


def test_the_command_lists_and_calls_tools_of_servers(home: Path, project: Path) -> None:
    entry = {**odd(project, {"tools": [tool("a"), tool("b")]}), "trust": True}
    other = {**odd(project, {"tools": [tool("c")]}, "other"), "trust": True}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"mcpServers": {"s": entry, "t": other, "broken": {"command": [5]}}}),
        encoding="utf-8",
    )
    listed = alhena("tools", "list", "--json")
    names = [each["name"] for each in listed.json]
    assert {"a", "b", "c"} <= set(names)
    assert "settings: mcpServers.broken.command: it has to be a text or null, not a" in listed.err
    ran = alhena("tools", "call", "mcp_s_a", '{"x": 1}', "--skip-trust", "--json")
    assert ran.code == 0
    assert ran.json["llmContent"] == '{"x": 1}'


def test_only_the_servers_that_are_named_are_started(home: Path, project: Path) -> None:
    marks = {name: project / f"{name}.heard" for name in ("s", "t")}
    entries = {
        name: odd(project, {"tools": [tool(name)], "heard": str(mark)}, name)
        for name, mark in marks.items()
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"mcpServers": entries}), encoding="utf-8"
    )
    ran = alhena("-p", "hello", "-m", "demo", "--allowed-mcp-server-names", "t")
    assert ran.code == 0, ran.err
    assert marks["t"].exists()
    assert not marks["s"].exists()


def told_late(project: Path) -> dict[str, Any]:
    """A server that connects when its gate is opened, with a tool and instructions."""
    os.mkfifo(project / "gate")
    script = {
        "tools": [tool("late")],
        "gate": str(project / "gate"),
        "initialize": {"instructions": "Ask late twice."},
        "does": {"late": {"do": "echo"}},
    }
    return {"late": odd(project, script, "late")}


@pytest.mark.requirement("COST-02")
async def test_what_connects_late_changes_nothing_of_a_request_and_is_found_by_search(
    project: Path,
) -> None:
    search = chunk(call("search_tools", {"query": "late"}, id="s"), finish="STOP")
    generator = ScriptedGenerator(
        [search],
        [text("one")],
        [search],
        [chunk(call("call_tool", {"name": "late", "args": {"a": "b"}}, id="c"), finish="STOP")],
        [text("two")],
    )
    made = settings(told_late(project), mcp={"startupWait": 0})
    running = agent(generator, cwd=project, settings=made, policy=ALLOW_ALL)
    async with running:
        await running.ask("go")
        await asyncio.to_thread((project / "gate").write_bytes, b"")
        while running.toolset.registry.find("late") is None:
            await asyncio.sleep(0.01)
        await running.ask("again")
        control = running.toolset.server_control
        assert control is not None
        await control.turn("late", enabled=False, lasting=False)  # a person's change shows
    assert "late: may bring more" in instruction(generator)
    assert "Ask late twice." not in instruction(generator)
    first, *later = generator.requests
    assert all(each.config == first.config for each in later)
    nothing, found = (
        generator.seen(index)[-1]["parts"][0]["functionResponse"]["response"]["output"]
        for index in (1, 3)
    )
    assert nothing.endswith("- late: none so far")
    assert "## late" in found
    assert "Ask late twice." in found
    assert "output" in generator.seen(4)[-1]["parts"][0]["functionResponse"]["response"]
    assert conforming(generator)


@pytest.mark.requirement("COST-02")
async def test_a_server_that_changes_its_tools_changes_nothing_of_a_request(project: Path) -> None:
    lists = project / "lists.json"
    lists.write_text(json.dumps([tool("become"), tool("old")]), encoding="utf-8")
    script = {
        "list_from": str(lists),
        "does": {"become": {"do": "become", "tools": [tool("become"), tool("new")]}},
        "initialize": {"capabilities": {"tools": {"listChanged": True}}},
    }
    search = chunk(call("search_tools", {"query": "new"}, id="s"), finish="STOP")
    generator = ScriptedGenerator(
        [search],
        [chunk(call("become", {}, id="b"), finish="STOP")],
        [text("one")],
        [search],
        [text("two")],
    )
    entries = {"k": odd(project, script)}
    running = agent(generator, cwd=project, settings=settings(entries), policy=ALLOW_ALL)
    async with running:
        await running.ask("go")
        while running.toolset.registry.find("new") is None:
            await asyncio.sleep(0.01)
        await running.ask("again")
    first, *later = generator.requests
    assert all(each.config == first.config for each in later)
    assert {"become", "old", "search_tools"} <= set(declared(generator))
    nothing, found = (
        generator.seen(index)[-1]["parts"][0]["functionResponse"]["response"]["output"]
        for index in (1, 4)
    )
    assert nothing == 'No tool matches "new": there are none besides the declared ones.'
    assert "## new" in found


ALONE = """
import fcntl, os, sys
held = open("held", "w")
fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.set_inheritable(held.fileno(), True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


async def test_a_server_that_can_run_only_once_is_there_again_in_the_next_conversation(
    project: Path,
) -> None:
    entry = odd(project, {"tools": [tool("one")]})
    entry["args"] = ["-c", ALONE, *entry["args"]]
    generator = ScriptedGenerator([text("first")], [text("second")])
    hooks = {"hooks": {"SessionEnd": [{"hooks": [{"command": "sleep 1"}]}]}}
    options: dict[str, Any] = {"settings": settings({"odd": entry}), "policy": ALLOW_ALL}
    async with agent(generator, cwd=project, hooks=hooks, **options) as running:
        assert await running.ask("go") == "first"
        await running.clear()
        assert await running.ask("go on") == "second"
    assert "one" in declared(generator, 0)
    assert "one" in declared(generator, 1)
