import base64
import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.memory.kit import put
from tests.support.command import ALHENA, alhena, alhena_reads, message_lines
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

KEY = {"GEMINI_API_KEY": "k-secret"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def keyed(server: ScriptedServer) -> dict[str, str]:
    return KEY | {"GOOGLE_GEMINI_BASE_URL": server.url}


@pytest.mark.requirement("CLI-01")
def test_text_output_is_the_answer_and_nothing_else(server: ScriptedServer):
    server.reply(sse(chunk({"text": "Hello "}), text("there")))
    ran = alhena("-p", "hi", **keyed(server))
    assert (ran.code, ran.out, ran.err) == (0, "Hello there\n", "")
    contents = server.requests[0].json["contents"]
    assert contents[0]["role"] == "user"
    assert "set" in contents[0]["parts"][0]["text"]
    assert contents[1] == {
        "role": "model",
        "parts": [{"text": "Got it. Thanks for the context!"}],
    }
    assert contents[2] == {"role": "user", "parts": [{"text": "hi"}]}


@pytest.mark.requirement("CLI-01")
def test_an_answer_that_the_service_cut_is_told_in_every_form(server: ScriptedServer):
    cut = chunk({"text": "as far as"}, finish="SAFETY")
    server.reply(*(sse(cut) for _ in range(3)), sse(text("whole")))
    ran = alhena("-p", "hi", **keyed(server))
    assert (ran.code, ran.out) == (0, "as far as\n")
    assert "warning: The service stopped the answer (SAFETY)" in ran.err
    ran = alhena("-p", "hi", "-o", "json", **keyed(server))
    assert (ran.json["status"], ran.json["finish_reason"]) == ("success", "SAFETY")
    assert "(SAFETY)" in ran.json["warnings"][0]
    ran = alhena("-p", "hi", "-o", "stream-json", **keyed(server))
    (warning,) = ran.of_type("error")
    assert warning["severity"] == "warning"
    assert "(SAFETY)" in warning["message"]
    (result,) = ran.of_type("result")
    assert (result["status"], result["finish_reason"]) == ("success", "SAFETY")
    ran = alhena("-p", "hi", "-o", "json", **keyed(server))
    assert (ran.json["finish_reason"], ran.json.get("warnings")) == ("STOP", None)


@pytest.mark.requirement("CLI-01", "WIRE-11", "WIRE-15")
def test_stream_json_tells_the_whole_run_and_the_model_gets_every_result(
    server: ScriptedServer, project: Path
):
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    (project / "pixel.png").write_bytes(PNG)
    server.reply(
        sse(
            chunk({"text": "**Look** at it", "thought": True}),
            chunk(
                call(
                    "read_file",
                    {"absolute_path": str(project / "a.txt")},
                    id="c1",
                    thoughtSignature="c2ln",
                )
            ),
            chunk(call("read_file", {"absolute_path": "missing.txt"}, id="c2")),
            chunk(call("read_file", {"absolute_path": "pixel.png"}, id="c3"), finish="STOP"),
        ),
        sse(
            chunk(call("run_shell_command", {"command": "echo out; exit 3"}), finish="STOP"),
        ),
        sse(text("done")),
    )
    ran = alhena(
        "-p", "go", "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust", **keyed(server)
    )
    assert ran.code == 0, ran.err
    assert [line["type"] for line in ran.lines if line["type"] != "message"] == [
        "init",
        "tool_use",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "tool_result",
        "tool_use",
        "tool_result",
        "result",
    ]
    results = {line["tool_id"]: line for line in ran.of_type("tool_result")}
    assert results["c1"]["status"] == "success"
    assert results["c2"]["error"]["type"] == "file_not_found"

    second = server.requests[1].json["contents"][-2:]
    assert second[0]["parts"][0]["thoughtSignature"] == "c2ln"
    assert not any(part.get("thought") for part in second[0]["parts"])
    responses = [part["functionResponse"] for part in second[1]["parts"][:3]]
    assert [(r["id"], r["name"]) for r in responses] == [
        ("c1", "read_file"),
        ("c2", "read_file"),
        ("c3", "read_file"),
    ]
    assert responses[0]["response"]["output"] == "alpha\n"
    assert "missing.txt" in responses[1]["response"]["error"]
    assert responses[2]["response"]["output"] == "Binary content of type image/png was processed."
    assert second[1]["parts"][3] == {"text": "[media of the result of read_file, call c3]"}
    assert second[1]["parts"][4]["inlineData"] == {
        "mimeType": "image/png",
        "data": base64.b64encode(PNG).decode(),
    }
    third = server.requests[2].json["contents"][-1]["parts"][0]["functionResponse"]
    made_id = server.requests[2].json["contents"][-2]["parts"][0]["functionCall"]["id"]
    assert third["id"] == made_id
    assert third["response"]["output"].splitlines()[:5] == [
        "Command: echo out; exit 3",
        "Directory: (root)",
        "Output: out",
        "Error: (none)",
        "Exit Code: 3",
    ]


@pytest.mark.requirement("CLI-01")
def test_json_output_is_one_document_with_stats_and_what_was_denied(
    server: ScriptedServer, project: Path
):
    server.reply(
        sse(
            chunk(
                call("run_shell_command", {"command": "rm -rf x"}, id="c1"),
                call("list_directory", {"path": "."}, id="c2"),
                finish="STOP",
                usage={"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
            )
        ),
        sse(chunk({"text": "ok"}, finish="STOP", usage={"promptTokenCount": 20})),
    )
    ran = alhena("-p", "go", "-o", "json", **keyed(server))
    assert ran.code == 0, ran.err
    document = ran.json
    assert document["response"] == "ok"
    assert document["session_id"]
    assert document["denied"][0]["tool_name"] == "run_shell_command"
    assert document["denied"][0]["parameters"] == {"command": "rm -rf x"}
    tools = document["stats"]["tools"]
    assert (tools["totalCalls"], tools["totalSuccess"], tools["totalFail"]) == (2, 1, 1)
    assert tools["totalDecisions"]["reject"] == 1
    tokens = next(iter(document["stats"]["models"].values()))["tokens"]
    assert (tokens["prompt"], tokens["total"]) == (30, 12)
    assert document["warnings"][0].startswith("Error executing tool run_shell_command: ")
    assert ran.err == ""
    declared = server.requests[0].json["tools"][0]["functionDeclarations"]
    assert "write_file" not in {item["name"] for item in declared}


@pytest.mark.requirement("TODAY-07")
def test_stderr_of_json_output_is_empty_or_one_error_object_unless_debugging(
    server: ScriptedServer, home: Path
):
    attempt_once(home)
    put(home, ".gemini/GEMINI.md", "@./missing.md")
    failing = sse(chunk(call("read_file", {"file_path": "none.txt"}, id="c1"), finish="STOP"))
    refusal = json_reply({"error": {"code": 400, "message": "bad field"}}, status=400)
    for json_by in (("-o", "json"), ()):
        if not json_by:
            put(
                home, ".gemini/settings.json", '{"output": {"format": "json"}, "model": {"nam": 1}}'
            )
        server.reply(failing, sse(text("ok")), failing, refusal, failing, sse(text("ok")))
        ran = alhena("-p", "go", *json_by, **keyed(server))
        assert (ran.code, ran.err) == (0, "")
        assert any("Error executing tool read_file" in each for each in ran.json["warnings"])
        failed = alhena("-p", "go", *json_by, **keyed(server))
        assert failed.code == 1
        document = json.loads(failed.err)
        assert document["error"] == failed.json["error"]
        assert document["warnings"] == failed.json["warnings"]
        assert any("Error executing tool read_file" in each for each in document["warnings"])
        debugged = alhena("-p", "go", *json_by, "--debug", **keyed(server))
        assert "\nError executing tool read_file" in f"\n{debugged.err}"


@pytest.mark.requirement("CLI-01")
def test_standard_input_comes_before_the_prompt(server: ScriptedServer):
    server.reply(sse(text("a")), sse(text("b")))
    alhena_reads(b"piped data\n", "-p", "explain", **keyed(server))
    assert server.requests[0].json["contents"][-1]["parts"] == [{"text": "piped data\n\n\nexplain"}]
    alhena_reads("nur Eingabe ü".encode(), **keyed(server))
    assert server.requests[1].json["contents"][-1]["parts"][0]["text"].startswith("nur Eingabe ü")


def attempt_once(home: Path) -> None:
    """Settings by which nothing is sent a second time."""
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text('{"general": {"maxAttempts": 1}}', encoding="utf-8")


@pytest.mark.requirement("CLI-01")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--nope", "-p", "x"], 2, "--nope"),
        (["-p", "x", "also"], 2, "twice"),
        (["-o", "xml", "-p", "x"], 2, "xml"),
        (["-p", ""], 42, "no prompt"),
        (["-p", "x"], 41, "GEMINI_API_KEY"),
        (["-p", "x", "--fake-responses", "none.jsonl"], 1, "none.jsonl"),
        (["-p", "x", "--policy", "none.toml", "-m", "demo"], 52, "none.toml"),
        (["-p", "x", "--include-directories", "none", "-m", "demo"], 42, "none"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_a_remedy(arguments: list[str], code: int, said: str):
    ran = alhena(*arguments)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert len(message_lines(ran.err)) == 1
    assert ran.out == ""


@pytest.mark.requirement("CLI-01")
def test_json_output_of_a_run_that_never_began_has_a_session_id_and_stderr_the_error_object():
    given = "11111111-2222-4333-8444-555555555555"
    for options, known in (((), None), (("--session-id", given), given)):
        ran = alhena("-p", "x", "-o", "json", *options)
        assert ran.code == 41
        failure = json.loads(ran.err)
        assert set(failure) == {"session_id", "error"}
        assert set(failure["error"]) == {"type", "message", "code"}
        assert failure["error"] == ran.json["error"]
        assert failure["session_id"] == ran.json["session_id"]
        assert str(uuid.UUID(failure["session_id"])) == (known or failure["session_id"])


@pytest.mark.requirement("CLI-01")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-o", "json", "--approval-mode", "nonsense", "-p", "x"), 2),
        (("--output-format=json", "--nothing"), 2),
        (("-o", "json", "-i", "x"), 42),
    ],
)
def test_a_command_line_that_cannot_be_used_has_a_json_document_too(
    arguments: tuple[str, ...], code: int
):
    ran = alhena(*arguments)
    assert ran.code == code
    assert ran.json["error"]["code"] == code
    assert json.loads(ran.err)["error"] == ran.json["error"]


@pytest.mark.requirement("CLI-01")
def test_a_denied_tool_is_said_to_be_none_and_then_why(server: ScriptedServer):
    server.reply(
        sse(chunk(call("save_memory", {"fact": "x"}, id="c1"), finish="STOP")),
        sse(text("ok")),
    )
    ran = alhena("-p", "go", **keyed(server))
    assert ran.code == 0
    first, reason, remedy = ran.err.splitlines()
    assert first.startswith(
        'Error executing tool save_memory: Tool "save_memory" not found. Did you mean'
    )
    assert "requires user confirmation" in reason
    assert "--approval-mode" in remedy


def test_a_call_that_a_rule_denies_has_no_advice_that_cannot_help(
    server: ScriptedServer, home: Path
):
    rule = 'toolName = "run_shell_command"\ncommandPrefix = "git push"\ndecision = "deny"'
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True)
    (policies / "git.toml").write_text(
        f'[[rule]]\n{rule}\npriority = 200\ndenyMessage = "A person pushes."\n', encoding="utf-8"
    )
    server.reply(
        sse(chunk(call("run_shell_command", {"command": "git push"}), finish="STOP")),
        sse(text("ok")),
    )
    ran = alhena("-p", "go", "--allowed-tools", "run_shell_command", **keyed(server))
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "Error executing tool run_shell_command: Tool execution denied by policy. A person pushes."
    ]


@pytest.mark.requirement("CLI-01")
@pytest.mark.parametrize(
    ("status", "body", "code", "kind"),
    [
        (400, {"error": {"code": 400, "message": "bad field"}}, 1, "bad_request"),
        (401, {"error": {"code": 401, "message": "no"}}, 41, "auth"),
        (403, {"error": {"code": 403, "message": "no"}}, 41, "auth"),
        (404, {"error": {"code": 404, "message": "no such model"}}, 1, "model_not_found"),
        (200, {"not": "sse"}, 1, None),
    ],
)
def test_a_refusal_by_the_service_ends_with_its_code_in_every_format(
    server: ScriptedServer, home: Path, status: int, body: object, code: int, kind: str | None
):
    attempt_once(home)
    for _ in range(3):
        server.reply(json_reply(body, status=status))
    for form in ("text", "json", "stream-json"):
        ran = alhena("-p", "x", "-o", form, **keyed(server))
        assert ran.code == code, ran.err
        assert form == "json" or len(message_lines(ran.err)) == 1
        assert "k-secret" not in ran.out + ran.err
        if form == "json":
            assert ran.json["error"]["code"] == code
            assert kind is None or ran.json["error"]["type"] == kind
            named = {key: ran.json[key] for key in ("session_id", "error")}
            assert json.loads(ran.err) == named
        if form == "stream-json":
            assert ran.lines[-1]["status"] == "error"
            assert ran.lines[-1]["error"]["code"] == code


def test_a_cut_stream_and_no_network_are_said_in_a_line(server: ScriptedServer, home: Path):
    attempt_once(home)
    server.reply(sse(chunk({"text": "half"}), cut=True))
    ran = alhena("-p", "x", "-o", "json", **keyed(server))
    assert ran.code == 1
    assert ran.json["error"]["type"] == "stream_cut"
    ran = alhena("-p", "x", **(KEY | {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}))
    assert ran.code == 1
    assert "127.0.0.1" in ran.err
    assert len(message_lines(ran.err)) == 1


@pytest.mark.requirement("CLI-01")
def test_settings_that_cannot_be_used_end_the_run_and_name_the_file(home: Path):
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text('{"model": {"name": [1]}}', encoding="utf-8")
    ran = alhena("-p", "x", "-m", "demo", "-o", "json")
    assert ran.code == 52
    assert "settings.json" in ran.err
    assert ran.json["error"]["type"] == "config"


@pytest.mark.requirement("CLI-01")
def test_the_turn_limit_of_the_settings_ends_with_53(server: ScriptedServer, home: Path):
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text('{"model": {"maxSessionTurns": 2}}', encoding="utf-8")
    for _ in range(3):
        server.reply(sse(chunk(call("list_directory", {"path": "."}), finish="STOP")))
    ran = alhena("-p", "x", "-o", "json", **keyed(server))
    assert ran.code == 53
    assert ran.json["error"]["type"] == "turn_limit"
    assert len(server.requests) == 2


@pytest.mark.requirement("CLI-01")
def test_an_interrupt_stops_the_tool_and_ends_with_130(server: ScriptedServer, project: Path):
    command = "echo $$ > pid; sleep 30"
    server.reply(sse(chunk(call("run_shell_command", {"command": command}), finish="STOP")))
    with subprocess.Popen(
        [ALHENA, "-p", "x", "-o", "stream-json", "-y", "--skip-trust"],
        env=os.environ | keyed(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        lines = []
        for raw in run.stdout:
            lines.append(json.loads(raw))
            if lines[-1]["type"] == "tool_use":
                break
        pid_file = project / "pid"
        while not (pid_file.exists() and pid_file.read_text(encoding="utf-8").strip()):
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        lines += [json.loads(raw) for raw in run.stdout]
        assert run.wait() == 130
        assert b"Traceback" not in run.stderr.read()
    assert lines[-1]["type"] == "result"
    assert lines[-1]["error"]["type"] == "interrupted"
    assert [line["type"] for line in lines].count("tool_result") == 1
    shell = int(pid_file.read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.killpg(shell, 0)
