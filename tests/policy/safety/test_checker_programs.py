"""Programs as checkers: what they are told, and that nothing they do is taken for an allow."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from alhena.policy.checker import CheckerError, CheckerVerdict
from alhena.policy.safety_checks import SECONDS, ExternalRunner
from alhena.system.child import descendants
from alhena.system.processes import ProcessGroups
from tests.policy.safety.kit import ALLOW, ASK, DENY, directory, program
from tests.support.patience import PATIENCE_S

HANG = "import time\nwhile True: time.sleep(60)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return directory(tmp_path)


def runner(**options: Any) -> ExternalRunner:
    around = {"PATH": os.environ["PATH"], "GIVEN": "1"}
    return ExternalRunner(around, **({"seconds": PATIENCE_S} | options))


async def run(folder: Path, body: str, question: bytes = b"{}", **options: Any) -> CheckerVerdict:
    return await runner(**options).run(program(folder, "checker", body), question)


async def failure(folder: Path, body: str, question: bytes = b"{}", **options: Any) -> str:
    with pytest.raises(CheckerError) as failed:
        await run(folder, body, question, **options)
    return str(failed.value)


class Watched(ProcessGroups):
    """Groups that remember what was watched."""

    def __init__(self) -> None:
        super().__init__()
        self.now: set[int] = set()
        self.ever: list[int] = []

    def watch(self, pgid: int) -> None:
        super().watch(pgid)
        self.now.add(pgid)
        self.ever.append(pgid)

    def unwatch(self, pgid: int) -> None:
        super().unwatch(pgid)
        self.now.discard(pgid)

    @property
    def left(self) -> list[int]:
        """The living processes of all sessions that were watched."""
        return [pid for session in self.ever for pid in descendants(session)]


@pytest.fixture
async def groups() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.close()


@pytest.mark.requirement("POL-10")
async def test_the_answer_is_a_decision_with_a_reason(folder: Path) -> None:
    assert await run(folder, "answer('allow')") == CheckerVerdict(ALLOW)
    assert await run(folder, "answer('deny', reason='no')") == CheckerVerdict(DENY, "no")
    assert await run(folder, "answer('ask_user', reason='hm', score=[1])") == CheckerVerdict(
        ASK, "hm"
    )
    body = "answer('allow', reason='é\\u2028', protocolVersion='9')\nprint(' \\t\\n')"
    assert await run(folder, body) == CheckerVerdict(ALLOW, "é\u2028")


@pytest.mark.requirement("POL-10")
async def test_it_reads_the_question_away_from_the_workspace_with_the_variables_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_GIVEN", "1")
    body = (
        "seen = json.load(sys.stdin)\n"
        "answer('deny', reason=json.dumps([seen, os.getcwd(), sorted(os.environ), "
        "os.getsid(0) == os.getpid()]))"
    )
    found = await run(folder, body, b'{"a": "\\ud800"}')
    seen, cwd, names, leads = json.loads(str(found.reason))
    assert (seen, cwd, leads) == ({"a": "\ud800"}, "/", True)
    assert "GIVEN" in names
    assert "NOT_GIVEN" not in names
    assert "HOME" not in names


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "it answered nothing"),
        ("print('\\n \\n')", "it answered nothing"),
        ("print('allow')", "is not valid"),
        ("print('\"allow\"')", "is not valid"),
        ("print('[]')", "is not valid"),
        ("print('null')", "is not valid"),
        ("print('{}')", "is not valid"),
        ('print(\'{"decision":"ALLOW"}\')', "is not valid"),
        ('print(\'{"decision":["allow"]}\')', "is not valid"),
        ("answer('allow', reason=3)", "is not valid"),
        ("answer('deny')", "has no reason"),
        ("answer('ask_user', reason=' \\n')", "has no reason"),
        ("answer('deny', reason=None)", "has no reason"),
        ("answer('allow'); print('x')", "is not valid"),
        ("answer('allow'); answer('allow')", "is not valid"),
        ('print(\'{"decision":"allow"\')', "is not valid"),
        ('os.write(1, b\'{"decision":"allow","reason":"\\xff"}\')', "is not valid"),
        ("os.write(1, b'\\xff\\xfe\\x00')", "is not valid"),
        ("os.write(1, '{\"decision\":\"allow\"}'.encode('utf-16'))", "is not valid"),
        ('print(\'{"decision":"allow","x":\' + \'[\' * 100000)', "is not valid"),
        ("print('[' * 100000 + ']' * 100000)", "is not valid"),
        ("answer('allow'); sys.exit(1)", "it exited with code 1"),
        ("answer('allow', flush=1); sys.stdout.flush(); os.abort()", "it was ended by signal 6"),
        ('print(\'{"decision":"allow"}\', file=sys.stderr)', "it answered nothing"),
        ("raise OSError('broken')", "it exited with code 1"),
    ],
)
async def test_anything_but_a_decision_is_a_failure(folder: Path, body: str, reason: str) -> None:
    assert reason in await failure(folder, body)


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    "body",
    [
        f"answer('allow')\nsys.stdout.flush()\n{HANG}",
        f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{HANG}",
        "import signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        f"os.close(0); os.close(1); os.close(2)\n{HANG}",
    ],
)
async def test_it_is_ended_when_it_does_not_answer_in_time(
    folder: Path, groups: Watched, body: str
) -> None:
    reason = await failure(folder, body, seconds=0.5, groups=groups)
    assert reason == "it did not answer within 0.5 s"
    assert (len(groups.ever), groups.left) == (1, [])


def test_it_may_take_five_seconds() -> None:
    assert SECONDS == 5


@pytest.mark.requirement("POL-10")
async def test_what_it_starts_ends_with_it_however_it_ends(folder: Path, groups: Watched) -> None:
    fork = (
        "for _ in range(4):\n    if os.fork() == 0:\n        import time\n        time.sleep(60)\n"
    )
    assert await run(folder, fork + "answer('allow')", groups=groups) == CheckerVerdict(ALLOW)
    assert (len(groups.ever), groups.left, groups.pgids) == (1, [], ())
    group = "if os.fork() == 0:\n    os.setpgid(0, 0)\n    import time\n    time.sleep(60)\n"
    assert "within" in await failure(folder, group + HANG, seconds=0.5, groups=groups)
    assert (len(groups.ever), groups.left) == (2, [])


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("guarded", [True, False])
async def test_what_leaves_its_session_ends_with_it_too(
    folder: Path, groups: Watched, guarded: bool
) -> None:
    body = (
        "import time\nreading, writing = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.write(writing, b'%d' % os.getpid())\n"
        "    time.sleep(60)\n"
        "answer('deny', reason=os.read(reading, 20).decode())"
    )
    verdict = await run(folder, body, groups=groups if guarded else None)
    assert descendants(int(str(verdict.reason))) == ()


@pytest.mark.requirement("POL-10")
async def test_a_question_that_nobody_reads_harms_nobody(folder: Path) -> None:
    question = json.dumps({"x": "y" * (4 << 20)}).encode()
    assert await run(folder, "answer('allow')", question) == CheckerVerdict(ALLOW)
    assert await run(folder, "os.close(0)\nanswer('allow')", question) == CheckerVerdict(ALLOW)
    assert "exited with code 3" in await failure(folder, "os._exit(3)", question)
    whole = "answer('deny', reason=str(len(sys.stdin.read())))"
    assert (await run(folder, whole, question)).reason == str(len(question))


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("after", ["", "answer('allow')", HANG])
async def test_an_answer_without_end_is_cut_off(folder: Path, groups: Watched, after: str) -> None:
    flood = "for _ in range(100): os.write(1, b' ' * (1 << 20))\n" + after
    assert "more than 1048576 bytes" in await failure(folder, flood, groups=groups)
    assert (len(groups.ever), groups.left) == (1, [])


async def test_an_answer_that_is_long_all_but_a_byte_is_read(folder: Path) -> None:
    size = (1 << 20) - len('{"decision":"allow","x":""}')
    text = 'os.write(1, (\'{"decision":"allow","x":"\' + \'x\' * %d + \'"}\').encode())'
    assert await run(folder, text % size) == CheckerVerdict(ALLOW)
    assert "more than" in await failure(folder, text % (size + 1))


async def test_a_program_that_cannot_be_started_is_a_failure(folder: Path) -> None:
    path = folder / "checker"
    path.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(CheckerError, match="Could not start"):
        await runner().run(path, b"{}")
    path.write_bytes(b"\0\1\2 no program")
    with pytest.raises(CheckerError):
        await runner().run(path, b"{}")


@pytest.mark.requirement("POL-10")
async def test_when_the_check_is_cancelled_the_program_is_ended_first(
    folder: Path, groups: Watched
) -> None:
    os.mkfifo(folder / "ready")
    body = f"open({str(folder / 'ready')!r}, 'w').close()\n{HANG}"
    task = asyncio.create_task(run(folder, body, groups=groups))
    opened = await asyncio.to_thread(open, folder / "ready", encoding="ascii")
    opened.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(groups.ever), groups.left, groups.now) == (1, [], set())


async def test_it_is_watched_only_while_it_runs(folder: Path, groups: Watched) -> None:
    await run(folder, "answer('allow')", groups=groups)
    await failure(folder, HANG, seconds=0.3, groups=groups)
    assert (len(groups.ever), groups.now, groups.pgids) == (2, set(), ())


async def test_many_at_once_each_have_their_own_answer(folder: Path) -> None:
    body = "answer('deny', reason=str(json.load(sys.stdin)))"
    path = program(folder, "checker", body)
    one = runner()
    found = await asyncio.gather(*(one.run(path, str(n).encode()) for n in range(12)))
    assert [verdict.reason for verdict in found] == [str(n) for n in range(12)]
