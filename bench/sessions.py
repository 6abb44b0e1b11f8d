"""The cost of recording a session, and of resuming a long one."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from alhena.events import (
    ApiResponseEvent,
    FinishedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
)
from alhena.session.journal import Journal
from alhena.session.records import VERSION, Header, now
from alhena.session.replay import JournalRecorder
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
)
from bench.measure import environment, median_ms, row

TURNS = 10_000
RESULT = 1_000
"""Characters of a result."""

OPEN = """
import asyncio, os, sys, time
from pathlib import Path
from alhena.session import recording
from alhena import Agent

async def main():
    async with Agent(model="demo") as agent:
        pass
    start = time.perf_counter()
    async with Agent(model="demo", resume="latest") as agent:
        took = time.perf_counter() - start
        print(took, len(agent.history))

asyncio.run(main())
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(int(line.split()[1]) / 1024)
"""


class LongSession:
    """A session passed to a recorder turn by turn: a prompt, a call, its result, an answer.
    `settle` is called as in the loop: until then records wait, as with a Recording."""

    def __init__(self, path: Path, project: Path) -> None:
        self.journal = Journal.create(path)
        header = Header(at=now(), version=VERSION, session_id=path.stem, project=str(project))
        self.journal.append(header)
        self._recorder = JournalRecorder(self.journal.add)
        self._count = 0
        self._chance = random.Random(0)

    def turn(self, index: int, settle: Callable[[], None]) -> None:
        record, call_id = self._recorder.event, f"c{index}"
        args = {"absolute_path": f"src/module_{index}.py", "offset": index}
        text = "".join(self._chance.choices("abcdefgh \n", k=RESULT))
        response = FunctionResponse(id=call_id, name="read_file", response={"output": text})
        parts = (Part(function_response=response),)
        call = Part(function_call=FunctionCall(id=call_id, name="read_file", args=args))
        record(UserMessageEvent(prompt_id=f"s#{index}", text=f"prompt {index}"))
        self._add(Content(role=USER, parts=(Part(text=f"prompt {index}"),)))
        record(ApiResponseEvent(model="m", prompt_id=f"s#{index}", duration_ms=1.0))
        record(ToolCallRequestEvent(call_id=call_id, name="read_file", args=args, prompt_id="p"))
        self._add(Content(role=MODEL, parts=(call,)))
        record(FinishedEvent(finish_reason="STOP"))
        for status in ("scheduled", "executing", "success"):
            record(ToolCallUpdateEvent(call_id=call_id, name="read_file", status=status))
        record(
            ToolCallResponseEvent(
                call_id=call_id, name="read_file", status="success", display="read", parts=parts
            )
        )
        settle()
        self._add(Content(role=USER, parts=parts))
        record(ApiResponseEvent(model="m", prompt_id=f"s#{index}", duration_ms=1.0))
        self._add(Content(role=MODEL, parts=(Part(text=f"Module {index} holds {text[:80]}."),)))
        record(FinishedEvent(finish_reason="STOP"))
        settle()

    def _add(self, content: Content) -> None:
        self._recorder.history(self._count, [EncodedContent(content)])
        self._count += 1


def run(home: Path, cwd: Path) -> None:
    """Prints the figures."""
    store = home / ".gemini" / "tmp" / "project" / "sessions"
    store.mkdir(parents=True, exist_ok=True)
    (store.parent / ".project_root").write_text(str(cwd), encoding="utf-8")
    _recording(store, cwd)
    path = store / "long.jsonl"
    session = LongSession(path, cwd)
    for index in range(TURNS // 2):  # each is two turns of the model
        session.turn(index, session.journal.write)
    session.journal.close()
    shown = subprocess.run(
        [sys.executable, "-c", OPEN],
        cwd=cwd,
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    first, memory = shown.stdout.splitlines()
    took, contents = first.split()
    size = path.stat().st_size / 1e6
    row(
        f"resume, {TURNS:,} turns ({int(contents):,} contents)",
        f"{float(took) * 1000:.0f} ms",
        f"{size:.0f} MB on disk",
        None,
        "<= 1000 ms",
        ok=float(took) <= 1,
    )
    row(
        f"peak memory of that, {TURNS:,} turns",
        f"{float(memory):.0f} MB",
        f"{size:.0f} MB on disk",
        None,
        "< 120 MB",
        ok=float(memory) < 120,
    )
    path.unlink()


def _recording(store: Path, cwd: Path) -> None:
    """The time of a turn with a call and its two writes to disk, and the disk's share of it."""
    path = store / "short.jsonl"
    session = LongSession(path, cwd)
    disk: list[float] = []
    whole: list[float] = []

    def settle() -> None:
        session.journal.write()
        start = time.perf_counter()
        session.journal.synchronise()
        disk.append(time.perf_counter() - start)

    for index in range(300):
        start = time.perf_counter()
        session.turn(index, settle)
        whole.append(time.perf_counter() - start)
    session.journal.close()
    path.unlink()
    turn = median_ms(whole) / 2
    row(
        "recording a model turn, with fsync",
        f"{turn:.2f} ms",
        f"fsync {median_ms(disk):.2f} ms",
        turn / median_ms(disk),
        "<= 1.5 ms",
        ok=turn <= 1.5,
    )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        run(home, project)
