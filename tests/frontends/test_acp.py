"""`alhena --acp`, with the official Python package as its client."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    EnvVariable,
    FileSystemCapabilities,
    ImageContentBlock,
    McpServerStdio,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    ResourceContentBlock,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

from tests.support.command import ALHENA, keyed
from tests.support.editor import Editor, choosing, connected, prompted
from tests.support.media import PNG_TEXT
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

CALL = "write_file"
ROOT = Path(__file__).parent.parent.parent


def wrote(path: Path) -> Any:
    return sse(chunk(call(CALL, {"file_path": str(path), "content": "beta\n"}), finish="STOP"))


@pytest.fixture
def scripted() -> Any:
    with ScriptedServer() as server:
        yield server


async def test_a_prompt_is_answered_with_thoughts_text_and_calls(
    project: Path, scripted: ScriptedServer
):
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    read = chunk(call("read_file", {"file_path": str(project / "a.txt")}), finish="STOP")
    thought = chunk({"text": "**Plan**\nread", "thought": True})
    scripted.reply(sse(thought, read), sse(text("It says alpha.")))
    editor = Editor()
    async with connected(editor, scripted, "--skip-trust") as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert [each.id for each in session.modes.available_modes] == [
            *("default", "autoEdit", "yolo", "plan")
        ]
        assert session.config_options[0].category == "model"
        assert await prompted(conn, session.session_id, text_block("read it")) == "end_turn"
    assert editor.said() == "It says alpha."
    assert "**Plan**" in editor.of("agent_thought_chunk")[0]["content"]["text"]
    (begun,) = editor.of("tool_call")
    assert (begun["kind"], begun["locations"]) == ("read", [{"path": str(project / "a.txt")}])
    assert editor.states() == ["pending", "in_progress", "completed"]


@pytest.mark.requirement("ACP-01")
async def test_an_approved_edit_shows_its_difference_and_is_made(
    project: Path, scripted: ScriptedServer
):
    scripted.reply(wrote(project / "b.txt"), sse(text("done")))
    editor = Editor(choosing("allow_once"))
    async with connected(editor, scripted, "--skip-trust") as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("write")) == "end_turn"
    assert (project / "b.txt").read_text(encoding="utf-8") == "beta\n"
    kinds = [each["kind"] for each in editor.options]
    assert kinds == ["allow_once", "allow_always", "reject_once"]
    assert "edits of workspace files" in editor.options[1]["name"]
    last = editor.of("tool_call_update")[-1]
    assert last["content"][0]["newText"] == "beta\n"
    assert editor.states()[-1] == "completed"


@pytest.mark.parametrize("answer", ["reject", "cancelled", "unknown"])
async def test_any_other_answer_ends_the_turn_and_the_next_prompt_works(
    project: Path, scripted: ScriptedServer, answer: str
):
    answers: dict[str, Callable[[Any, Any], Any]] = {
        "reject": choosing("reject_once"),
        "cancelled": lambda _call, _options: DeniedOutcome(outcome="cancelled"),
        "unknown": lambda _call, _options: AllowedOutcome(outcome="selected", option_id="zzz"),
    }
    scripted.reply(wrote(project / "b.txt"), sse(text("two")))
    editor = Editor(answers[answer])
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        await prompted(conn, session.session_id, text_block("write"))
        assert await prompted(conn, session.session_id, text_block("go on")) == "end_turn"
    assert not (project / "b.txt").exists()
    assert editor.states()[-1] == "failed"
    assert len(scripted.requests) == 2
    assert editor.said() == "two"


@pytest.mark.requirement("ACP-01")
async def test_cancelling_withdraws_a_question_and_the_next_prompt_works(
    project: Path, scripted: ScriptedServer
):
    scripted.reply(wrote(project / "b.txt"), sse(text("after")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        running = asyncio.create_task(prompted(conn, session.session_id, text_block("write")))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        await conn.cancel(session_id=session.session_id)
        assert await running == "cancelled"
        assert editor.states()[-1] == "failed"
        assert await prompted(conn, session.session_id, text_block("go on")) == "end_turn"
    assert editor.said() == "after"


@pytest.mark.parametrize("during", ["streaming", "a tool"])
async def test_cancelling_ends_the_stream_and_the_tool(
    project: Path, scripted: ScriptedServer, during: str
):
    hold = threading.Event()
    if during == "streaming":
        scripted.reply(sse(text("begun", None), hold=hold))
    else:
        sleeping = {"command": "sleep 600", "description": "x"}
        scripted.reply(sse(chunk(call("run_shell_command", sleeping), finish="STOP")))
    scripted.reply(sse(text("after")))
    editor = Editor(choosing("allow_once"))
    async with connected(editor, scripted, "--approval-mode", "yolo", "--skip-trust") as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        running = asyncio.create_task(prompted(conn, session.session_id, text_block("go")))
        while not (
            scripted.requests if during == "streaming" else "in_progress" in editor.states()
        ):
            await asyncio.sleep(0.01)
        await conn.cancel(session_id=session.session_id)
        assert await running == "cancelled"
        hold.set()
        assert await prompted(conn, session.session_id, text_block("go on")) == "end_turn"


@pytest.mark.requirement("ACP-01")
async def test_hooks_run_around_calls_and_their_block_is_shown(
    project: Path, scripted: ScriptedServer
):
    hook = {"type": "command", "command": "echo not here >&2; exit 2"}
    settings = {"hooks": {"BeforeTool": [{"matcher": "read_file", "hooks": [hook]}]}}
    home = Path(os.environ["HOME"]) / ".gemini"
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    read = chunk(call("read_file", {"file_path": str(project / "a.txt")}), finish="STOP")
    scripted.reply(sse(read), sse(text("blocked")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        await prompted(conn, session.session_id, text_block("read it"))
    last = editor.of("tool_call_update")[-1]
    assert last["status"] == "failed"
    assert "not here" in last["content"][0]["content"]["text"]


@pytest.mark.requirement("ACP-01")
async def test_a_session_is_loaded_listed_resumed_and_forked_after_a_restart(
    project: Path, scripted: ScriptedServer
):
    scripted.reply(sse(text("first")), sse(text("second")), sse(text("third")))
    first = Editor()
    async with connected(first, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        await prompted(conn, session.session_id, text_block("hello"))
    again = Editor()
    async with connected(again, scripted) as conn:
        own = session.session_id
        await conn.load_session(session_id=own, cwd=str(project), mcp_servers=[])
        shown = [each["sessionUpdate"] for each in again.updates]
        assert shown[:2] == ["user_message_chunk", "agent_message_chunk"]
        await prompted(conn, own, text_block("go on"))
        listed = await conn.list_sessions(cwd=str(project))
        assert [(each.session_id, each.title) for each in listed.sessions] == [(own, "hello")]
        fork = await conn.fork_session(session_id=own, cwd=str(project), mcp_servers=[])
        assert fork.session_id != own
        await prompted(conn, fork.session_id, text_block("elsewhere"))
        with pytest.raises(RequestError) as gone:
            await conn.load_session(session_id="gone", cwd=str(project), mcp_servers=[])
        assert gone.value.code == -32002
    asked = scripted.requests[-1].json["contents"]
    said = [part["text"] for each in asked[-5:] for part in each["parts"]]
    assert said == ["hello", "first", "go on", "second", "elsewhere"]


@pytest.mark.requirement("ACP-01")
async def test_modes_models_plans_and_commands(project: Path, scripted: ScriptedServer):
    todos = {"todos": [{"description": "one", "status": "in_progress"}]}
    scripted.reply(sse(chunk(call("write_todos", todos), finish="STOP")), sse(text("planned")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        own = session.session_id
        await conn.set_session_mode(session_id=own, mode_id="plan")
        with pytest.raises(RequestError) as unknown:
            await conn.set_session_mode(session_id=own, mode_id="zzz")
        assert unknown.value.code == -32602
        await conn.set_session_mode(session_id=own, mode_id="default")
        assert not editor.of("current_mode_update")
        changed = await conn.set_config_option(
            session_id=own, config_id="model", value="gemini-2.5-flash"
        )
        assert changed.config_options[0].current_value == "gemini-2.5-flash"
        older = {"sessionId": own, "modelId": "gemini-2.5-flash-lite"}  # as editors used to say it
        assert await conn._conn.send_request("session/set_model", older) == {}
        with pytest.raises(RequestError):
            await conn._conn.send_request("session/set_model", {"sessionId": own})
        assert await prompted(conn, own, text_block("/help")) == "end_turn"
        assert await prompted(conn, own, text_block("/memory show")) == "end_turn"
        assert not scripted.requests
        await prompted(conn, own, text_block("plan"))
        (plan,) = editor.of("plan")
        assert plan["entries"][0]["content"] == "one"
        assert "gemini-2.5-flash-lite" in scripted.requests[0].path
        assert editor.of("available_commands_update")


@pytest.mark.requirement("ACP-01")
async def test_a_change_of_the_model_keeps_approvals_and_refuses_another_service(
    project: Path, scripted: ScriptedServer
):
    for name in "ab":
        made = call("run_shell_command", {"command": f"mkdir {name}"}, id=name)
        scripted.reply(sse(chunk(made, finish="STOP")), sse(text("done")))
    editor = Editor(choosing("allow_always"))
    async with connected(editor, scripted) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        await prompted(conn, own, text_block("one"))
        with pytest.raises(RequestError, match="another service"):
            await conn.set_config_option(session_id=own, config_id="model", value="openai:gpt-x")
        await conn.set_config_option(session_id=own, config_id="model", value="gemini-2.5-flash")
        editor.asked.clear()
        await prompted(conn, own, text_block("two"))
    assert (project / "b").is_dir()
    assert not editor.asked.is_set()
    asked = scripted.requests[-1]
    assert "gemini-2.5-flash:" in asked.path
    parts = [part for each in asked.json["contents"] for part in each["parts"]]
    assert [part["text"] for part in parts if "text" in part][-3:] == ["one", "done", "two"]


async def test_images_and_links_are_sent_and_files_outside_are_only_named(
    project: Path, scripted: ScriptedServer
):
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    scripted.reply(sse(text("seen")))
    async with connected(Editor(), scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        image = ImageContentBlock(type="image", data=PNG_TEXT, mime_type="image/png")
        links = [
            ResourceContentBlock(type="resource_link", name=str(path), uri=path.as_uri())
            for path in (project / "a.txt", Path("/etc/hostname"))
        ]
        await prompted(conn, session.session_id, text_block("see "), image, *links)
        bad = ImageContentBlock(type="image", data="%%", mime_type="image/png")
        with pytest.raises(RequestError) as wrong:
            await prompted(conn, session.session_id, bad)
        assert wrong.value.code == -32602
    (request,) = scripted.requests
    parts = request.json["contents"][-1]["parts"]
    assert parts[0]["text"].endswith("@file:///etc/hostname")
    assert any(part.get("inlineData", {}).get("mimeType") == "image/png" for part in parts)
    assert "alpha" in json.dumps(parts)


def test_bad_messages_are_answered_and_the_next_one_is_read(project: Path):
    lines = [
        b"garbage",
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"method":"zzz"}',
        b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":1}}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":9}}',
    ]
    process = subprocess.Popen(
        [ALHENA, "--acp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"\n".join(lines) + b"\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(6)]
    codes = {each["id"]: each["error"]["code"] for each in answers if "error" in each}
    assert codes == {None: -32600, 1: -32601, 2: -32602, 3: -32602}
    assert answers[0]["error"]["code"] == -32700
    (begun,) = [each["result"] for each in answers if "result" in each]
    assert begun["protocolVersion"] == 1
    assert begun["agentCapabilities"]["loadSession"]
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()


async def test_without_credentials_a_session_is_refused(project: Path):
    async with connected(Editor(), None) as conn:
        with pytest.raises(RequestError) as refused:
            await conn.new_session(cwd=str(project), mcp_servers=[])
    assert refused.value.code == -32000


def test_without_the_package_one_line_says_how_to_get_it(project: Path):
    code = "import sys; sys.modules['acp'] = None; from alhena.frontends.main import run; "
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(run(['--acp']))"],
        capture_output=True,
        check=False,
        cwd=project,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 52
    assert ran.stderr.count(b"\n") == 1
    assert b"[acp]" in ran.stderr


async def test_permissions_of_a_subagent_reach_the_client(project: Path, scripted: ScriptedServer):
    task = {"agent_name": "generalist", "objective": "write it"}
    done = {"result": "written"}
    scripted.reply(
        sse(chunk(call("delegate_to_agent", task), finish="STOP")),
        wrote(project / "b.txt"),
        sse(chunk(call("complete_task", done), finish="STOP")),
        sse(text("all done")),
    )
    editor = Editor(choosing("allow_once"))
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("go")) == "end_turn"
    assert (project / "b.txt").exists()
    announced = [each["toolCallId"] for each in editor.of("tool_call")]
    ended = [each["toolCallId"] for each in editor.updates if each.get("status") == "completed"]
    assert len(announced) == len(set(announced))
    assert set(ended) == set(announced)


async def test_servers_of_the_client_offer_their_tools(project: Path, scripted: ScriptedServer):
    scripted.reply(sse(text("seen")))
    kitchen = [str(ROOT / "tests" / "mcp" / "served" / "kitchen.py"), "stdio"]
    mark = EnvVariable(name="MARK", value="1")
    server = McpServerStdio(name="kitchen", command=sys.executable, args=kitchen, env=[mark])
    async with connected(Editor(), scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[server])
        await prompted(conn, session.session_id, text_block("hello"))
    (declared,) = scripted.requests[0].json["tools"]
    names = [each["name"] for each in declared["functionDeclarations"]]
    assert "echo" in names


async def test_loading_a_session_at_work_shows_it_and_it_can_still_be_cancelled(
    project: Path, scripted: ScriptedServer
):
    scripted.reply(sse(text("first")), wrote(project / "b.txt"), sse(text("after")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        await prompted(conn, own, text_block("hello"))
        running = asyncio.create_task(prompted(conn, own, text_block("write")))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        editor.updates.clear()
        await conn.load_session(session_id=own, cwd=str(project), mcp_servers=[])
        shown = [each["content"]["text"] for each in editor.of("user_message_chunk")]
        assert shown == ["hello", "write"]
        assert editor.states() == ["pending"]
        await conn.cancel(session_id=own)
        assert await running == "cancelled"
        assert await prompted(conn, own, text_block("go on")) == "end_turn"


def test_a_client_that_has_gone_leaves_no_command_behind(project: Path, scripted: ScriptedServer):
    mark = project / "pid"
    command = {"command": f"echo $$ > {mark}; sleep 600"}
    scripted.reply(sse(chunk(call("run_shell_command", command), finish="STOP")))
    process = subprocess.Popen(
        [ALHENA, "--acp", "--yolo", "--skip-trust"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **keyed(scripted)},
    )
    assert process.stdin
    assert process.stdout

    def send(number: int, method: str, params: dict[str, Any]) -> None:
        assert process.stdin
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    send(1, "session/new", {"cwd": str(project), "mcpServers": []})
    own = json.loads(process.stdout.readline())["result"]["sessionId"]
    prompt = [{"type": "text", "text": "go"}]
    send(2, "session/prompt", {"sessionId": own, "prompt": prompt})
    for line in process.stdout:
        if b"in_progress" in line:
            break
    while not (mark.exists() and mark.read_text(encoding="utf-8").strip()):
        pass
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()
    assert not Path(f"/proc/{mark.read_text(encoding='utf-8').strip()}").exists()


class Buffers(Editor):
    """An editor with files of its own."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(choosing("allow_once"))
        self.files = files

    async def read_text_file(self, path: str, **_more: Any) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, content: str, path: str, **_more: Any) -> None:
        self.files[path] = content


async def test_files_are_read_and_edited_through_the_client(
    project: Path, scripted: ScriptedServer
):
    file = project / "a.txt"
    file.write_text("saved\n", encoding="utf-8")
    edit = {"file_path": str(file), "old_string": "unsaved", "new_string": "edited"}
    scripted.reply(
        sse(chunk(call("read_file", {"file_path": str(file)}), finish="STOP")),
        sse(chunk(call("replace", edit), finish="STOP")),
        wrote(project / "b.txt"),
        sse(text("done")),
    )
    editor = Buffers({str(file): "unsaved\n"})
    able = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
    async with connected(editor, scripted, able=able) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("go")) == "end_turn"
    assert "unsaved" in json.dumps(scripted.requests[1].json["contents"][-1])
    assert editor.files == {str(file): "edited\n", str(project / "b.txt"): "beta\n"}
    assert file.read_text(encoding="utf-8") == "saved\n"
    assert not (project / "b.txt").exists()


class Terminals(Editor):
    """An editor whose terminals run nothing; those without a limit end when they are released."""

    def __init__(self, *, ends: bool, late_s: float = 0.0) -> None:
        super().__init__(choosing("allow_once"))
        self._late_s = late_s
        self.created: list[str] = []
        self.variables: dict[str, str] = {}
        self.released = asyncio.Event()
        self._ends = ends

    async def create_terminal(self, command: str, args: Any, env: Any, **_more: Any) -> Any:
        self.created.append(f"{command} {' '.join(args)}")
        self.variables = {each.name: each.value for each in env}
        await asyncio.sleep(self._late_s)
        return CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, **_more: Any) -> Any:
        if not self._ends:
            await self.released.wait()
        return WaitForTerminalExitResponse(exit_code=3)

    async def terminal_output(self, **_more: Any) -> Any:
        return TerminalOutputResponse(output="from the editor", truncated=False)

    async def release_terminal(self, **_more: Any) -> Any:
        self.released.set()
        return ReleaseTerminalResponse()


@pytest.mark.parametrize(("ends", "late_s"), [(True, 0.0), (False, 0.0), (False, 0.5)])
async def test_commands_run_in_a_terminal_of_the_client_which_is_released(
    project: Path, scripted: ScriptedServer, ends: bool, late_s: float
):
    command = {"command": "touch made"}
    scripted.reply(sse(chunk(call("run_shell_command", command), finish="STOP")))
    scripted.reply(sse(text("done")))
    editor = Terminals(ends=ends, late_s=late_s)
    shown = {"type": "terminal", "terminalId": "t1"}

    def contents() -> list[Any]:
        return [
            each
            for update in editor.updates
            if isinstance(found := update.get("content"), list)
            for each in found
        ]

    able = ClientCapabilities(terminal=True)
    async with connected(editor, scripted, "--yolo", "--skip-trust", able=able) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        running = asyncio.create_task(prompted(conn, own, text_block("go")))
        if not ends:
            while not (editor.created if late_s else shown in contents()):
                await asyncio.sleep(0.01)
            await conn.cancel(session_id=own)
        assert await running == ("end_turn" if ends else "cancelled")
        await asyncio.wait_for(editor.released.wait(), PATIENCE_S)
    assert editor.created[0].endswith("-c touch made")
    # What the editor handed us is not handed to the command: its key is set to nothing.
    assert editor.variables["GEMINI_API_KEY"] == ""
    assert editor.variables["GIT_TERMINAL_PROMPT"] == "0"
    assert "PATH" not in editor.variables
    assert not (project / "made").exists()
    assert (shown in contents()) is not bool(late_s)
    if ends:
        last = json.dumps(scripted.requests[-1].json["contents"][-1])
        assert "from the editor" in last
        assert "Exit Code: 3" in last


def shown_texts(editor: Editor) -> list[str]:
    contents = [each.get("content") or () for each in editor.of("tool_call_update")]
    return [each["content"]["text"] for content in contents for each in content]


async def test_output_of_a_command_is_shown_while_it_runs(project: Path, scripted: ScriptedServer):
    waits = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last"
    command = {"command": waits}
    scripted.reply(sse(chunk(call("run_shell_command", command), finish="STOP")))
    scripted.reply(sse(text("done")))
    editor = Editor()
    async with connected(editor, scripted, "--yolo", "--skip-trust") as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        running = asyncio.create_task(prompted(conn, own, text_block("go")))
        while not any("first" in each for each in shown_texts(editor)):
            await asyncio.sleep(0.01)
        assert "completed" not in editor.states()
        (project / "go").touch()
        assert await running == "end_turn"
    assert editor.states()[-1] == "completed"
    assert shown_texts(editor)[-1] == "```console\nfirst\nlast\n```"


async def test_a_damaged_session_is_loaded_as_far_as_it_goes_and_an_unreadable_one_is_refused(
    project: Path, scripted: ScriptedServer
):
    scripted.reply(*(sse(text(each)) for each in ("first", "second", "third")))
    async with connected(Editor(), scripted) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        for each in ("hello", "more"):
            await prompted(conn, own, text_block(each))
    (path,) = (Path(os.environ["HOME"]) / ".gemini").rglob(f"{own}.jsonl")
    whole = path.read_bytes()
    head, rest = whole.split(b"\n", 1)
    newer = head.replace(b'"version":1', b'"version":99').rpartition(b',"crc"')[0]
    newer += b',"crc":"%08x"}' % zlib.crc32(newer)
    editor = Editor()
    async with connected(editor, scripted) as conn:
        where = {"session_id": own, "cwd": str(project), "mcp_servers": []}
        for begun, words in ((newer, "later version"), (b"garbage", "damaged")):
            path.write_bytes(begun + b"\n" + rest)
            for method in (conn.load_session, conn.resume_session, conn.fork_session):
                with pytest.raises(RequestError, match=words) as refused:
                    await method(**where)
                assert refused.value.code == -32002
        path.write_bytes(whole[:-30])
        fork = await conn.fork_session(**where)
        await prompted(conn, fork.session_id, text_block("/help"))
        assert "damaged" in editor.of("agent_thought_chunk")[0]["content"]["text"]
        editor.updates.clear()
        await conn.load_session(**where)
        shown = [each["content"]["text"] for each in editor.updates if "content" in each]
        assert shown == ["hello", "first", "more", "second"]
        await prompted(conn, own, text_block("go on"))
    assert "damaged" in editor.of("agent_thought_chunk")[0]["content"]["text"]
    assert "third" in editor.said()


async def test_a_wait_for_another_try_is_shown(project: Path, scripted: ScriptedServer):
    busy = json_reply({"error": {"message": "busy"}}, status=503, headers={"Retry-After": "1"})
    scripted.reply(busy, sse(text("done")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        assert await prompted(conn, own, text_block("go")) == "end_turn"
    thoughts = "".join(each["content"]["text"] for each in editor.of("agent_thought_chunk"))
    assert "busy" in thoughts
    assert "Trying again in" in thoughts
