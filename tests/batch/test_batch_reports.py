"""Reports of runs as pages, and comparisons of two runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from alhena.batch.queue import Queue
from alhena.batch.reports.report import MOST_LISTED, report_of
from alhena.batch.results import TaskResult
from alhena.batch.tasks import QueuedTask
from tests.batch.answering import AnsweringServer, echo, prompt_of, write_tasks
from tests.support.command import alhena, keyed
from tests.support.server import json_reply


def test_the_page_groups_failures_by_their_text_and_links_to_sessions(project: Path):
    def answer(contents: list[dict[str, Any]]) -> Any:
        number = int(prompt_of(contents).removeprefix("task "))
        if number < 3:
            message = f"<b>request {number} 0xdeadbeef0{number} is too odd</b>"
            error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
            return json_reply({"error": error}, 400)
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 6)
    with AnsweringServer(answer) as server:
        command = ("batch", "tasks.jsonl", "--out", "r.jsonl", "-m", "gemini-2.5-flash")
        assert alhena(*command, **keyed(server)).code == 1
    assert alhena("batch", "report", "r.jsonl.run", "--html", "report.html").code == 0
    page = (project / "report.html").read_text()
    groups = page.partition("Failures by their text")[2].partition("</table>")[0]
    assert re.findall(r'data-group="(\d)">([\d,]+)<', groups) == [("0", "3")]
    assert "&lt;b&gt;request # # is too odd" in groups
    rows = re.findall(r'<tr class="(\w+)"( data-group="0")?><td><a href="([^"]+)">', page)
    assert sorted((status, bool(group)) for status, group, _ in rows) == [
        *[("done", False)] * 3,
        *[("failed", True)] * 3,
    ]
    assert all("task " in (project / link).read_text() for *_, link in rows)
    assert page.count('class="bars"') == 2
    assert page.count("<option>") == 3
    assert not re.search(r"""(src|href)=["']?\w+:""", page), "it needs no network"


def test_a_report_does_not_grow_with_the_tasks(tmp_path: Path):
    number = MOST_LISTED + 10
    tasks = [QueuedTask(id=f"t{n}", prompt="x") for n in range(number)]
    queue = Queue.create(tmp_path, tasks, b"{}")
    with queue.transaction() as db:
        for n in range(number):
            status = "failed" if n >= number - 3 else "done"
            result = TaskResult(
                id=f"t{n}", status=status, error=f"no {n}", kind="x", answer="y" * 5000
            )
            db.execute(
                "UPDATE tasks SET state = 'ended', status = ?, place = ?, result = ? WHERE id = ?",
                (status, n + 1, _encode(result), f"t{n}"),
            )
    report = report_of(queue)
    queue.close()
    assert (len(report.results), report.left_out) == (MOST_LISTED, 10)
    assert [each.id for each in report.results[:3]] == [f"t{number - n}" for n in (3, 2, 1)]
    assert [(each.text, each.tasks) for each in report.groups] == [("no #", 3)]
    assert sum(len(each.answer or "") for each in report.results) < 400 * MOST_LISTED


def _encode(result: TaskResult) -> bytes:
    import msgspec

    return msgspec.json.encode(result)


def test_two_runs_are_compared_by_task(project: Path):
    def line(name: str, status: str, cost: float, answer: str = "same") -> str:
        usage = {"input_tokens": 100}
        fields = {"id": name, "status": status, "answer": answer, "cost_usd": cost, "usage": usage}
        return f"{json.dumps(fields)}\n"

    one = [line(f"t{n}", "done", 0.02) for n in range(8)]
    other = [line(f"t{n}", "done", 0.03) for n in range(8)]
    one += [line("lost", "done", 1.0), line("won", "failed", 1.0), line("gone", "done", 1.0)]
    other += [line("lost", "failed", 1.0), line("won", "done", 1.0), line("new", "done", 1.0)]
    other[0] = line("t0", "done", 0.03, "another")
    (project / "a.jsonl").write_text("".join(one))
    (project / "b.jsonl").write_text("".join(other))
    found = json.loads(alhena("batch", "diff", "a.jsonl", "b.jsonl", "--json").out)
    assert (found["tasks"], found["better"], found["worse"]) == (10, ["won"], ["lost"])
    assert (found["changed"], found["added"], found["removed"]) == (["t0"], ["new"], ["gone"])
    cost = found["measures"]["cost_usd"]
    assert [cost[name] for name in ("first", "second", "low", "high")] == pytest.approx(
        [0.02, 0.03, 0.01, 0.01]
    )
    done = found["measures"]["done"]
    assert (done["first"], done["difference"]) == (0.9, 0.0)
    assert done["low"] < 0 < done["high"]
    text = alhena("batch", "diff", "a.jsonl", "b.jsonl").out
    assert "worse: 1 (lost)" in text
    assert "may be chance" in text
    assert alhena("batch", "diff", "a.jsonl", "nowhere").code == 42
