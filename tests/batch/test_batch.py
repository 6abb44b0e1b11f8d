"""`alhena batch`: from a file of tasks to a file of results."""

import json
import os
import re
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from alhena.batch.overview import cancel_tasks, counts, retry_failed
from alhena.batch.progress import RunProgress
from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask
from tests.batch.answering import (
    AnsweringServer,
    echo,
    ended,
    prompt_of,
    results,
    started,
    write_tasks,
)
from tests.support.command import alhena, alhena_reads, keyed, message_lines
from tests.support.server import call, json_reply
from tests.tracing.kit import data_of

MODEL = ("-m", "gemini-2.5-flash")


@pytest.mark.requirement("RUN-01")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_task_has_one_line(project: Path, workers: str):
    write_tasks(project / "tasks.jsonl", 6)
    with AnsweringServer(echo) as server:
        ran = alhena(
            *("batch", "tasks.jsonl", "--out", "r.jsonl", "--workers", workers), **keyed(server)
        )
    assert (ran.code, ran.out) == (0, "")
    found = results(project / "r.jsonl")
    assert {each["id"]: each["answer"] for each in found} == {
        f"t{n}": f"answer to task {n}" for n in range(6)
    }
    first = found[0]
    assert (first["status"], first["attempts"], first["error"]) == ("done", 1, None)
    assert first["usage"]["input_tokens"] == 1000
    assert first["cost_usd"] > 0
    assert "6 done, 0 failed of 6" in ran.err
    home = Path(os.environ["HOME"])
    assert not (home / ".gemini" / "tmp").exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_results_file_that_goes_while_the_run_works_is_written_again(
    project: Path, *, replaced: bool
):
    """As an editor or a tidy person does it."""
    write_tasks(project / "tasks.jsonl", 3)
    out = project / "r.jsonl"
    with AnsweringServer(echo, held_from=2) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--concurrency", "1")
        assert server.reached(2, process)
        first = out.read_bytes()
        out.unlink()
        if replaced:
            out.write_bytes(first)
        server.go_on.set()
        code, err = ended(process)
    assert code == 0, err
    assert [each["id"] for each in results(out)] == ["t0", "t1", "t2"]


@pytest.mark.requirement("RUN-01")
def test_tasks_of_many_folders_work_there_with_their_own_instructions(project: Path):
    """Each lists its folder, by a path that is not in the prompt."""
    folders = [project / "one", project / "two words" / "ü"]
    lines: list[str] = []
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        (folder / f"only-{number}.txt").touch()
        (folder / "GEMINI.md").write_text(f"rule {number}")
        cwd = str(folder.relative_to(project)) if number else str(folder)
        lines.append(json.dumps({"id": f"t{number}", "prompt": f"task {number}", "cwd": cwd}))
    (project / "tasks.jsonl").write_text("\n".join(lines))

    def look(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        parts = contents[-1]["parts"]
        if "functionResponse" not in parts[0]:
            return [call("list_directory", {"path": "."})]
        return [{"text": str(parts[0]["functionResponse"]["response"])}]

    with AnsweringServer(look) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", "--skip-trust", **keyed(server))
    assert ran.code == 0, ran.err
    for each in results(project / "r.jsonl"):
        own, other = each["id"][1], str(1 - int(each["id"][1]))
        assert f"only-{own}.txt" in each["answer"]
        assert f"only-{other}.txt" not in each["answer"]
    for number in range(2):
        bodies = [
            each.body.decode() for each in server.requests if f"task {number}" in str(each.json)
        ]
        assert all(f"rule {number}" in body and f"rule {1 - number}" not in body for body in bodies)
        assert len(bodies) == 2


def test_problems_of_a_task_file_are_told_with_their_lines_before_anything_starts(project: Path):
    lines = [
        '{"id": "a", "prompt": "x"}',
        '{"id": "a", "prompt": "y"}',
        '{"prompt": ""}',
        "{",
        '{"prompt": "x", "modle": "y"}',
        '{"prompt": "x", "limits": {"turns": "many"}}',
        '{"prompt": "x", "cwd": "nowhere"}',
        "[]",
    ]
    (project / "tasks.jsonl").write_text("\n".join(lines))
    ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl")
    assert ran.code == 42
    told = message_lines(ran.err)
    assert [line.split(": ")[0] for line in told[:-1]] == [f"tasks.jsonl:{n}" for n in range(2, 9)]
    assert [line.split(": ")[1] for line in told[:6]] == [
        *("id", "prompt", "not JSON", "modle", "limits.turns", "cwd")
    ]
    assert not (project / "r.jsonl.run").exists()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.jsonl", b'{"prompt": "x"}\n"a prompt"\n', "t.jsonl:2: expected an object, got str"),
        ("t.jsonl", b"[" * 100_000 + b"]" * 100_000, "t.jsonl:1: not JSON: maximum recursion"),
        ("t.csv", b"id,prompt,prompt\na,one,two\n", "t.csv:1: prompt: several columns have"),
        ("t.csv", b'id,prompt\na,one\nb,"two"x\n', "t.csv:3: not CSV: "),
        ("t.csv", "id,prompt\na,one\nb,drei für\n".encode("latin-1"), "t.csv:3: not CSV in UTF-8"),
    ],
)
def test_a_line_that_is_no_task_is_told_with_its_number(
    project: Path, name: str, content: bytes, problem: str
):
    (project / name).write_bytes(content)
    ran = alhena("batch", name, "--out", "r.jsonl")
    assert (ran.code, ran.err.splitlines()[0][: len(problem)]) == (42, problem)
    assert not (project / "r.jsonl.run").exists()


@pytest.mark.parametrize(
    "source", [("prompts",), ("--each-file", "prompts/*", "--prompt", "Read {path}.")]
)
def test_a_file_whose_name_is_not_utf8_is_told_of(project: Path, source: tuple[str, ...]):
    (project / "prompts").mkdir()
    (project / "prompts" / os.fsdecode(b"caf\xe9.md")).write_text("task")
    ran = alhena("batch", *source, "--out", "r.jsonl")
    assert (ran.code, "prompts/caf" in ran.err, "name is not UTF-8" in ran.err) == (42, True, True)
    assert not (project / "r.jsonl.run").exists()


def test_a_prompt_for_the_tasks_of_a_file_is_refused_with_the_reason(project: Path):
    (project / "t.csv").write_text("id,text\na,one\n")
    ran = alhena("batch", "t.csv", "--prompt", "Answer {text}", "--out", "r.jsonl")
    assert (ran.code, "--prompt is for --each-file" in ran.err) == (2, True)


def test_tasks_come_from_standard_input_csv_folders_and_patterns(project: Path):
    (project / "t.csv").write_text('id, prompt,limits\na,task one,"{""turns"": 3}"\nb,task two,\n')
    long = " ".join(map(str, range(25_000)))
    (project / "long.csv").write_text(f"id,prompt\na,{long}\n")
    (project / "prompts").mkdir()
    (project / "prompts" / "first.md").write_text("task from a file\n")
    sources: list[tuple[tuple[str, ...], bytes, dict[str, str]]] = [
        (("-",), b'{"prompt": "task in"}\n{"prompt": "task in"}\n', {}),
        (("t.csv",), b"", {"a": "answer to task one", "b": "answer to task two"}),
        (("long.csv",), b"", {"a": f"answer to {long}"}),
        (("prompts",), b"", {"first": "answer to task from a file\n"}),
        (
            ("--each-file", "**/*.md", "--prompt", "task of {path}"),
            b"",
            {"prompts/first.md": "answer to task of prompts/first.md"},
        ),
    ]
    with AnsweringServer(echo) as server:
        for number, (source, stdin, expected) in enumerate(sources):
            out = f"r{number}.jsonl"
            ran = alhena_reads(stdin, "batch", *source, "--out", out, **keyed(server))
            assert ran.code == 0, ran.err
            found = {each["id"]: each["answer"] for each in results(project / out)}
            if expected:
                assert found == expected
            else:
                one, two = sorted(found)  # they end in any order
                assert two == f"{one}-2"


@pytest.mark.requirement("RUN-01")
def test_a_failed_task_is_a_line_and_exit_1_and_retry_failed_runs_it_again(project: Path):
    broken = True

    def answer(contents: list[dict[str, Any]]) -> Any:
        if prompt_of(contents) == "task 1" and broken:
            return json_reply({"error": {"code": 400, "message": "no", "status": "X"}}, 400)
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 3)
    with AnsweringServer(answer) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server))
        assert ran.code == 1
        (failed,) = [each for each in results(project / "r.jsonl") if each["status"] == "failed"]
        assert (failed["id"], failed["kind"], failed["answer"]) == ("t1", "bad_request", None)
        assert "no" in failed["error"]
        broken = False
        ran = alhena("batch", "retry-failed", "r.jsonl.run", **keyed(server))
    assert ran.code == 0, ran.err
    found = {each["id"]: each for each in results(project / "r.jsonl")}
    assert len(results(project / "r.jsonl")) == 3
    assert (found["t1"]["status"], found["t1"]["attempts"]) == ("done", 2)
    shown = alhena("batch", "show", "r.jsonl.run", "t1").json
    assert (shown["task"]["prompt"], shown["state"]) == ("task 1", "ended")
    assert alhena("batch", "status", "r.jsonl.run", "--json").json["done"] == 3
    table = alhena("batch", "status", "r.jsonl.run").out.splitlines()
    assert table[:2] == ["done       3", "tasks      3"]
    assert [line.split()[0] for line in table] == ["done", "tasks", "used", "limits"]


@pytest.mark.requirement("RUN-01")
def test_all_tokens_count_and_what_failed_or_was_cancelled_is_tried_again(tmp_path: Path):
    tasks = [QueuedTask(id=each, prompt="x") for each in ("done", "failed", "cancelled")]
    queue = Queue.create(tmp_path, tasks, b"{}")
    for claim in queue.claim("one", 2, 2, 60.0):
        queue.finish(claim.token, claim.task.id, None, b"{}")
    cancel_tasks(queue, None, lambda _id, _taken: b"{}")
    with queue.transaction() as db:
        db.execute("UPDATE tasks SET input_tokens = 1, output_tokens = 10, thought_tokens = 100")
    found = counts(queue)
    assert (found.done, found.failed, found.cancelled, found.tokens) == (1, 1, 1, 333)
    assert retry_failed(queue) == 2
    found = counts(queue)
    assert (found.done, found.waiting) == (1, 2)
    queue.close()


def test_a_report_is_a_table_and_a_page_with_links_to_its_sessions(project: Path):
    def answer(contents: list[dict[str, Any]]) -> Any:
        if prompt_of(contents) == "task 1":
            return json_reply({"error": {"code": 400, "message": "<no>", "status": "X"}}, 400)
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 3)
    with AnsweringServer(answer) as server:
        alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *MODEL, **keyed(server))
    ran = alhena("batch", "report", "r.jsonl.run", "--html", "page.html")
    assert ran.code == 0
    table = dict(
        line.split(maxsplit=1) for line in ran.out.splitlines() if line[:4] in ("done", "cost")
    )
    assert table["done"] == "2 (66.7% of those that ended)"
    assert "failed: bad_request  1" in ran.out
    page = (project / "page.html").read_text()
    assert "&lt;no&gt;" in page
    assert "src=" not in page
    assert "task 2" in page
    links = dict(re.findall(r'<a href="([^"]+)">(t[0-9])</a>', page))
    assert sorted(links.values()) == ["t0", "t1", "t2"]
    for address, task_id in links.items():
        session = (project / address).read_bytes()
        assert data_of(session)["steps"][0]["text"] == f"task {task_id[1:]}"
    again = alhena("batch", "report", "r.jsonl.run", "--html", "page.html")
    assert again.code == 0
    before = (project / "r.jsonl").read_bytes()
    refused = alhena("batch", "report", "r.jsonl.run", "--html", "r.jsonl")
    assert (refused.code, "r.jsonl exists, and is no page" in refused.err) == (42, True)
    assert (project / "r.jsonl").read_bytes() == before


def test_an_output_schema_gives_a_value(project: Path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    write_tasks(project / "tasks.jsonl", 1, output_schema=schema)
    with AnsweringServer(lambda _contents: [call("final_answer", {"n": 3})]) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server))
    assert ran.code == 0, results(project / "r.jsonl")
    assert results(project / "r.jsonl")[0]["output"] == {"n": 3}


@pytest.mark.requirement("RUN-01")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_killed_run_continues_at_its_step(project: Path, workers: str):
    """The command and its workers are killed while the second request is under way: the call that
    was made is not repeated, and the prompt is not sent again."""

    def answer(contents: list[dict[str, Any]]) -> Any:
        if "functionResponse" not in contents[-1]["parts"][0]:
            command = "echo once >> log.txt"
            return [call("run_shell_command", {"command": command}, id="c1")]
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 1)
    options = ("--approval-mode", "yolo", "--skip-trust", "--workers", workers)
    with AnsweringServer(answer, held_from=2) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        assert server.reached(2, process)
        os.killpg(process.pid, signal.SIGKILL)
        ended(process)
        assert not (project / "r.jsonl").read_text()
        (project / "r.jsonl").write_text('{"id": "torn')
        server.go_on.set()
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
        assert ran.code == 0, ran.err
        (found,) = results(project / "r.jsonl")
        assert (found["status"], found["attempts"]) == ("done", 2)
        assert (project / "log.txt").read_text() == "once\n"
        last = server.requests[-1].json["contents"]
    assert sum(json.dumps(each).count("task 0") for each in last) == 1
    assert "once" not in last[-1]["parts"][0]["functionResponse"]["response"]
    assert found["answer"] == "answer to task 0"


def test_a_killed_worker_s_tasks_go_to_another(project: Path):
    held: list[int] = []

    def answer(contents: list[dict[str, Any]]) -> Any:
        name = prompt_of(contents)
        if name in ("task 2", "task 5") and server.asked.count(name) == 1:
            db = sqlite3.connect(project / "r.jsonl.run" / "queue.sqlite")
            query = "SELECT holder FROM tasks WHERE id = ?"
            (holder,) = db.execute(query, (name.replace("task ", "t"),)).fetchone()
            db.close()
            for pid in _workers(holder):
                held.append(pid)
                os.kill(pid, signal.SIGKILL)
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 8)
    with AnsweringServer(answer) as server:
        options = ("--workers", "2", "--concurrency", "4")
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        code, err = ended(process)
    assert code == 0, err
    assert held
    found = results(project / "r.jsonl")
    assert sorted(each["id"] for each in found) == [f"t{n}" for n in range(8)]
    assert {each["answer"] for each in found} == {f"answer to task {n}" for n in range(8)}
    assert next(each for each in found if each["id"] == "t2")["attempts"] > 1


def _workers(holder: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"\0{holder}\0".encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_stopped_worker_that_wakes_up_is_refused(project: Path):
    stopped: list[int] = []

    def answer(contents: list[dict[str, Any]]) -> Any:
        if not stopped:
            db = sqlite3.connect(project / "r.jsonl.run" / "queue.sqlite")
            (holder,) = db.execute("SELECT holder FROM tasks WHERE id = 't0'").fetchone()
            db.close()
            stopped.extend(_workers(holder))
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        elif server.asked.count("task 0") == 2:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 1)
    with AnsweringServer(answer) as server:
        options = ("--workers", "2", "--lease", "1")
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        code, err = ended(process)
    assert code == 0, err
    (found,) = results(project / "r.jsonl")
    assert (found["status"], found["attempts"]) == ("done", 2)


def test_one_directory_has_one_command(project: Path):
    write_tasks(project / "tasks.jsonl", 1)
    with AnsweringServer(echo, held_from=1) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl")
        assert server.reached(1, process)
        second = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
        server.go_on.set()
        assert ended(process)[0] == 0
    assert second.code == 42
    assert "in use by another process" in second.err
    assert alhena("batch", "tasks.jsonl", "--out", "r.jsonl").code == 42


def test_interrupted_twice_a_run_leaves_no_line_and_goes_on(project: Path):
    write_tasks(project / "tasks.jsonl", 4)
    with AnsweringServer(echo, held_from=2) as server:
        options = ("--concurrency", "1")
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        assert server.reached(2, process)
        process.send_signal(signal.SIGTERM)
        code, err = ended(process)
        assert code == 130, err
        assert "alhena batch resume" in err
        assert [each["id"] for each in results(project / "r.jsonl")] == ["t0"]
        server.go_on.set()
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
    assert ran.code == 0
    found = results(project / "r.jsonl")
    assert [each["id"] for each in found] == ["t0", "t1", "t2", "t3"]
    assert [each["attempts"] for each in found] == [1, 2, 1, 1]


def test_cancel_writes_cancelled(project: Path):
    write_tasks(project / "tasks.jsonl", 3)
    with AnsweringServer(echo) as server:
        options = ("--total-cost", "0.0001", "--concurrency", "1", *MODEL)
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
        assert ran.code == 53, ran.err
        assert alhena("batch", "cancel", "r.jsonl.run").code == 0
    found = results(project / "r.jsonl")
    assert [each["status"] for each in found] == ["done", "cancelled", "cancelled"]


def test_money_is_shared_and_a_resume_with_another_limit_says_so(project: Path):
    write_tasks(project / "tasks.jsonl", 6)
    with AnsweringServer(echo) as server:
        options = ("--total-cost", "0.001", "--concurrency", "1", *MODEL)
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
        assert ran.code == 53, ran.err
        assert "limit of $0.001 for all tasks" in ran.err
        spent = sum(each["cost_usd"] for each in results(project / "r.jsonl"))
        assert 0.001 - 0.00055 < spent < 0.001 + 0.00055
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
        assert ran.code == 53, "a resume goes on counting"
        ran = alhena("batch", "resume", "r.jsonl.run", "--total-cost", "9", **keyed(server))
    assert ran.code == 0
    assert "total-cost is 9 now, it was 0.001." in ran.err
    assert len(results(project / "r.jsonl")) == 6


def test_a_run_is_begun_although_another_process_opens_its_queue_at_once(tmp_path: Path):
    class Watched(type(tmp_path)):
        def rename(self, target: Any) -> Any:
            renamed = super().rename(target)
            other.append(sqlite3.connect(target, isolation_level=None))
            other[0].execute("BEGIN IMMEDIATE")
            return renamed

    other: list[sqlite3.Connection] = []
    queue = Queue.create(Watched(tmp_path), [QueuedTask(id="a", prompt="x")], b"{}")
    other[0].close()
    assert len(queue.claim("me", 1, 8, 60)) == 1
    queue.close()


def test_without_a_key_nothing_is_run(project: Path):
    write_tasks(project / "tasks.jsonl", 3)
    for workers in ("0", "1"):
        ran = alhena("batch", "tasks.jsonl", "--out", f"r{workers}.jsonl", "--workers", workers)
        assert ran.code == 41, ran.err
        assert not list(project.glob("r*"))


@pytest.mark.requirement("RUN-01")
@pytest.mark.parametrize("at_terminal", [True, False])
def test_progress_has_rate_money_time_left_and_the_slowest_task(tmp_path: Path, at_terminal: bool):
    queue = Queue.create(tmp_path, [QueuedTask(id=f"t{n}", prompt="x") for n in range(4)], b"{}")
    now = time.monotonic()
    told: list[str] = []
    progress = RunProgress(queue, told.append, at_terminal=at_terminal, clock=lambda: now)
    (first, _second) = queue.claim("me", 2, 8, 60)
    queue.finish(first.token, "failed", "api_error", b'{"id":"t0","status":"failed"}')
    now += 32
    progress.feed(counts(queue), tuple(queue.results_after(0)))
    queue.close()
    text = "".join(told)
    assert "t0 failed: api_error" in text
    line = "1/4 · 1 running · 1 failed · 1.88/min · 0 tokens · $0.00 · 2 min left · slowest t1 32 s"
    assert (f"\r\x1b[K{line}" if at_terminal else f"alhena: {line}\n") in text


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_starts_no_more_and_twice_ends_what_runs(project: Path, times: int):
    write_tasks(project / "tasks.jsonl", 3)
    with AnsweringServer(echo, held_from=1) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--concurrency", "1")
        assert server.reached(1, process)
        assert process.stderr is not None
        for words in ("starting no more tasks", "ending the tasks that run")[:times]:
            process.send_signal(signal.SIGINT)
            while words not in process.stderr.readline():
                pass
        if times == 1:
            server.go_on.set()
        code, err = ended(process)
        server.go_on.set()
    assert code == 130, err
    assert [each["id"] for each in results(project / "r.jsonl")] == ["t0"][: 2 - times]


@pytest.mark.parametrize("verb", ["resume", "retry-failed"])
def test_another_results_file_of_a_resume_is_new_or_has_the_run_s_own_lines(
    project: Path, verb: str
):
    write_tasks(project / "tasks.jsonl", 2)
    with AnsweringServer(echo) as server:
        for name in ("r", "other"):
            alhena("batch", "tasks.jsonl", "--out", f"{name}.jsonl", **keyed(server))
        for taken in ("tasks.jsonl", "other.jsonl"):
            before = (project / taken).read_bytes()
            ran = alhena("batch", verb, "r.jsonl.run", "--out", taken, **keyed(server))
            assert (ran.code, "no results of this run" in ran.err) == (42, True), ran.err
            assert (project / taken).read_bytes() == before
        own = (project / "r.jsonl").read_bytes()
        (project / "moved.jsonl").write_bytes(own[:-9])
        for out in ("moved.jsonl", "new/r.jsonl"):
            ran = alhena("batch", verb, "r.jsonl.run", "--out", out, **keyed(server))
            assert (ran.code, (project / out).read_bytes()) == (0, own), ran.err


def test_results_never_take_the_place_of_something_else(project: Path):
    tasks = write_tasks(project / "tasks.jsonl", 1)
    before = tasks.read_bytes()
    with AnsweringServer(echo) as server:
        for out, words in (("/dev/full", "not a regular file"), ("tasks.jsonl", "exists")):
            options = ("--out", out, "--run-dir", "run")
            ran = alhena("batch", "tasks.jsonl", *options, **keyed(server))
            assert (ran.code, words in ran.err) == (42, True), ran.err
        assert (server.asked, tasks.read_bytes(), (project / "run").exists()) == ([], before, False)
        alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server))
        (project / "r.jsonl").write_text("not JSON\n")
        assert alhena("batch", "resume", "r.jsonl.run", **keyed(server)).code == 0
        assert [each["id"] for each in results(project / "r.jsonl")] == ["t0"]
        (project / "r.jsonl").unlink()
        (project / "r.jsonl").symlink_to("/dev/full")
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
    assert ran.code == 1
    assert "the results cannot be written to" in ran.err
