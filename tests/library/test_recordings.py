"""Recordings of programs, replays that compare requests, and the lock against real requests."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from alhena import Agent, run_many
from alhena.errors import ProgramError
from alhena.models import Gemini, Recorded
from alhena.models.errors import CredentialsError, RecordingError
from alhena.testing import Call, TestModel, no_real_requests, record, replay
from tests.support.server import Reply, ScriptedServer, sse, text

pytestmark = pytest.mark.requirement("LIB-08")


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def an_agent(folder: Path, **given: object) -> Agent:
    folder.mkdir(exist_ok=True)
    (folder / "note.txt").write_text(f"kept in {folder}\n")
    given.setdefault("model", "gemini-2.5-flash")
    return Agent(tools=[add], cwd=folder, **given)  # pyright: ignore[reportArgumentType, reportCallIssue]


def recorded_run(project: Path, path: Path, prompt: str = "Add and read.") -> str:
    folder = project / "first"
    calls = [Call("add", a=1, b=2), Call("read_file", file_path=str(folder / "note.txt"))]
    with record(path):
        return an_agent(folder, model=TestModel(calls, f"3, from {folder}.")).ask_sync(prompt)


def test_a_replay_answers_as_the_recorded_model_in_another_working_directory(project: Path):
    path = project / "answers.jsonl"
    assert recorded_run(project, path) == f"3, from {project / 'first'}."
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with replay(path), no_real_requests():
        answer = an_agent(project / "second", model=TestModel()).ask_sync("Add and read.")
    assert answer == f"3, from {project / 'second'}."


async def test_a_named_model_is_replayed_without_credentials(
    project: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    path = project / "answers.jsonl"
    server.reply(sse(text("Good day.")))
    monkeypatch.setenv("GEMINI_API_KEY", "a-secret-key")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    with record(path):
        assert await an_agent(project / "a").ask("Hello") == "Good day."
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL")
    with replay(path), no_real_requests():
        assert await an_agent(project / "b").ask("Hello") == "Good day."
    with replay(path):
        async with Gemini("gemini-2.5-flash") as model:
            assert await an_agent(project / "c", model=model).ask("Hello") == "Good day."
    with record(project / "other.jsonl"), pytest.raises(CredentialsError, match="api_key"):
        Gemini("gemini-2.5-flash")
    assert "a-secret-key" not in path.read_text()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda line: line["request"]["contents"][-1]["parts"][0].update(text="Else"), "contents"),
        (lambda line: line["request"].pop("tools"), "tools: recorded nothing, now"),
        (lambda line: line.update(model="gemini-3"), "model: recorded 'gemini-3', now 'test'"),
        (
            lambda line: line["request"]["generationConfig"].update(temperature=0.25),
            "generationConfig.temperature: recorded 0.25, now",
        ),
        (lambda line: line["request"]["contents"].pop(), "contents: recorded 2 items, now 3 items"),
    ],
    ids=["prompt", "tools", "model", "temperature", "contents"],
)
def test_a_request_that_differs_is_an_error_with_the_first_difference(
    project: Path, change: Callable[[dict[str, object]], object], where: str
):
    path = project / "answers.jsonl"
    recorded_run(project, path)
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    change(first)
    path.write_text("\n".join(map(json.dumps, [first, *others])))
    with replay(path), pytest.raises(RecordingError, match="differs") as caught:
        an_agent(project / "first", model=TestModel()).ask_sync("Add and read.")
    assert "line 1, at" in str(caught.value)
    assert where in str(caught.value)


def test_the_difference_shows_both_texts_from_shortly_before_it(project: Path):
    path = project / "answers.jsonl"
    recorded_run(project, path)
    with replay(path), pytest.raises(RecordingError) as caught:
        an_agent(project / "first", model=TestModel()).ask_sync("Add and write.")
    assert "recorded 'Add and read.', now 'Add and write.'" in str(caught.value)


def test_a_result_of_a_tool_that_changed_is_a_difference(project: Path):
    path = project / "answers.jsonl"
    recorded_run(project, path)

    def add(a: int, b: int) -> int:
        """Adds."""
        return a - b

    agent = Agent(TestModel(), tools=[add], cwd=project / "first")
    with replay(path), pytest.raises(RecordingError, match="recorded '3', now '-1'"):
        agent.ask_sync("Add and read.")


def test_process_ids_of_commands_are_no_difference(project: Path):
    path = project / "answers.jsonl"

    def run(*answers: object) -> str:
        model = TestModel(*answers)  # pyright: ignore[reportArgumentType]
        return Agent(model, cwd=project, approve="always").ask_sync("Go.")

    with record(path):
        run(Call("run_shell_command", command="echo hi"), "done")
    with replay(path):
        assert run() == "done"


async def test_agents_at_the_same_time_get_the_answers_to_their_own_requests(project: Path):
    path = project / "answers.jsonl"
    prompts = [f"Number {number}." for number in range(8)]

    async def answers(model: TestModel, order: list[str]) -> dict[object, object]:
        done = run_many(
            order, agent=lambda: Agent(model, cwd=project, isolated=True), concurrency=4
        )
        return {outcome.task: outcome.result and outcome.result.text async for outcome in done}

    model = TestModel(*[lambda request: str(request["contents"][-1]["parts"][0]["text"])] * 8)
    with record(path):
        live = await answers(model, prompts)
    with replay(path):
        assert await answers(TestModel(), prompts[::-1]) == live
    assert set(live.values()) == set(prompts)


def test_an_answer_is_given_once(project: Path):
    path = project / "answers.jsonl"
    with record(path):
        Agent(TestModel("one"), cwd=project, isolated=True).ask_sync("Go.")
    with replay(path):
        assert Agent(TestModel(), cwd=project, isolated=True).ask_sync("Go.") == "one"
        with pytest.raises(RecordingError, match="no answer to generateContentStream left"):
            Agent(TestModel(), cwd=project, isolated=True).ask_sync("Go.")


async def test_a_shared_model_is_recorded_with_its_retries_and_stays_open(
    project: Path, server: ScriptedServer
):
    path = project / "answers.jsonl"
    server.reply(Reply(status=503), sse(text("ok")), sse(text("again")))
    async with Gemini("gemini-2.5-flash", api_key="a-secret-key", base_url=server.url) as model:
        with record(path):
            assert await Agent(model, cwd=project, isolated=True).ask("go") == "ok"
        assert await Agent(model, cwd=project, isolated=True).ask("go") == "again"
        with replay(path), no_real_requests():
            assert await Agent(model, cwd=project, isolated=True).ask("go") == "ok"
    assert len(path.read_text().splitlines()) == 1
    assert "a-secret-key" not in path.read_text()


async def test_a_recording_of_the_command_has_no_requests_and_is_replayed_in_order(project: Path):
    path = project / "answers.jsonl"
    with record(path):
        async with Agent(TestModel("one", "two"), cwd=project, isolated=True) as agent:
            await agent.ask("a")
            await agent.ask("b")
    plain = [json.loads(line) for line in path.read_text().splitlines()]
    bare = [{"method": line["method"], "response": line["response"]} for line in plain]
    path.write_text("\n".join(map(json.dumps, bare)))
    with replay(path):
        async with Agent(TestModel(), cwd=project, isolated=True) as agent:
            assert [await agent.ask(text) for text in "xy"] == ["one", "two"]
    async with Recorded(path) as model:
        assert await Agent(model, cwd=project, isolated=True).ask("z") == "one"


def test_a_block_that_raises_leaves_the_earlier_recording(project: Path):
    path = project / "answers.jsonl"
    recorded_run(project, path)
    before = path.read_bytes()
    with pytest.raises(ProgramError, match="no answer left"), record(path):
        an_agent(project / "first", model=TestModel()).ask_sync("y")
    assert path.read_bytes() == before
    assert [file.name for file in project.glob("answers*")] == ["answers.jsonl"]


@pytest.mark.parametrize("use", [record, replay])
def test_a_path_that_cannot_be_used_is_an_error_that_names_it(
    project: Path, use: Callable[[Path], AbstractContextManager[None]]
):
    with pytest.raises(RecordingError, match="absent"), use(project / "absent" / "a.jsonl"):
        pytest.fail("opened")


def test_a_line_that_is_broken_is_named(project: Path):
    path = project / "answers.jsonl"
    path.write_text('{"method": "generateContent", "response": {}}\n\n{"method": 5}\n')
    with pytest.raises(RecordingError, match="line 3"), replay(path):
        pytest.fail("opened")


async def test_no_request_leaves_to_a_model_inside_the_lock(project: Path, server: ScriptedServer):
    server.reply(sse(text("ok")))
    async with Gemini("gemini-2.5-flash", api_key="a-key", base_url=server.url) as model:
        agent = Agent(model, cwd=project, isolated=True)
        with (
            no_real_requests(),
            pytest.raises(ProgramError, match=r"leave to 127\.0\.0\.1\. Use a TestModel"),
        ):
            await agent.ask("go")
        assert server.requests == []
        assert await agent.ask("go") == "ok"


def test_no_request_leaves_to_a_web_page_inside_the_lock(project: Path):
    page = "http://1.1.1.1/"
    model = TestModel(Call("web_fetch", prompt=f"Read {page}"), "", "It could not be read.")
    agent = Agent(model, cwd=project, approve="always", isolated=True)
    with no_real_requests():
        agent.ask_sync("go")
    assert "no_real_requests() lets no request leave to 1.1.1.1" in str(
        model.requests[-1]["contents"][-1]
    )


def test_the_fixture_comes_with_the_package(project: Path):
    (project / "test_it.py").write_text(
        "from alhena import Agent\n"
        "from alhena.errors import ProgramError\n"
        "from alhena.models import Gemini\n"
        "import pytest\n"
        "def test_it(no_real_requests):\n"
        "    agent = Agent(Gemini('gemini-2.5-flash', api_key='x'), isolated=True)\n"
        "    with pytest.raises(ProgramError, match='no_real_requests'):\n"
        "        agent.ask_sync('go')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
