"""Kills a session at random instants, again and again, and looks what is left of it.

`python -m tests.session.killing SEED KILLS` works in the current directory, prints one JSON object
with what it has seen, and fails when anything that was acknowledged is not there.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from alhena import tool
from alhena.config.home import project_temp
from alhena.policy.model import ApprovalMode
from alhena.session.journal import read_session
from alhena.session.records import Answered, Started, record_of
from alhena.session.replay import NOT_STARTED, Replay
from alhena.session.store import open_store
from alhena.tools.contract import Kind
from alhena.wire.conformance.check import check_request
from alhena.wire.conformance.history import UNKNOWN_OUTCOME
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import Severity
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse
from tests.support.agents import scripted_agent
from tests.support.server import call, chunk, text

LONGEST_S = 0.04
DEADLY = 9
"""Of so many lives one ends for certain while a call is carried out."""
LINES = 400
"""Of the file that is written again and again; all of them alike, so that a mix would show."""


@tool(kind=Kind.EXECUTE)
def effect(name: str) -> str:
    """Does something once.

    Args:
        name: what.
    """
    if int(name.removeprefix("e-").partition("-")[0]) % DEADLY == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    descriptor = os.open("effects.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{name}\n".encode())
    os.close(descriptor)
    return f"did {name}"


class Model:
    """Calls two tools for each prompt, then answers it. Looks at every request it gets."""

    def __init__(self, report: int) -> None:
        self._report = report

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        raise NotImplementedError

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        wrong = [item for item in check_request(request) if item.level is Severity.ERROR]
        if wrong:
            os.write(self._report, f"wrong {wrong[0].rule} {wrong[0].message}\n".encode())
        last = request.contents[-1].content.parts[-1]
        if last.function_response is None:
            name = str(last.text)
            content = f"{name}\n" * LINES
            calls = [
                call("write_file", {"file_path": "kept.txt", "content": content}, id=f"w-{name}"),
                call("effect", {"name": f"e-{name}"}, id=f"e-{name}"),
            ]
            yield msgspec.convert(chunk(*calls, finish="STOP"), GenerateContentResponse)
        else:
            answer = str(last.function_response.id).replace("e-", "answer ")
            yield msgspec.convert(text(answer), GenerateContentResponse)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        return 0

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


async def live(life: int, report: int) -> None:
    """Goes on with the session until it is killed; reports each prompt that was answered."""
    settings = {"generator": Model(report), "resume": "latest", "approval_mode": ApprovalMode.YOLO}
    async with scripted_agent(tools=[effect], **settings) as agent:
        os.write(report, b"open\n")
        for number in range(1_000):
            name = f"{life}-{number}"
            assert await agent.ask(name) == f"answer {name}"
            os.write(report, f"done {name}\n".encode())


class Witness:
    """Checks that everything acknowledged is there."""

    def __init__(self) -> None:
        self.kills = 0
        self.acknowledged: list[str] = []
        self.unknown = 0
        self.not_started = 0

    def hear(self, said: str) -> None:
        for line in said.splitlines():
            word, _, name = line.partition(" ")
            require(word in ("open", "done"), line)
            if word == "done":
                self.acknowledged.append(name)

    def look(self, path: Path) -> None:
        """Reads the session as another run would."""
        replay = Replay()
        lines: list[bytes] = []

        def take(line: bytes) -> None:
            lines.append(line)
            replay.feed(line)

        extent = read_session(path, take)
        sayings = [
            part.text
            for entry in replay.contents
            for part in entry.content.parts
            if part.text is not None
        ]
        places = {text: place for place, text in enumerate(sayings)}
        wanted = [text for name in self.acknowledged for text in (name, f"answer {name}")]
        missing = [text for text in wanted if text not in places]
        require(not missing, f"lost: {missing[:3]}")
        require([places[text] for text in wanted] == sorted(places[text] for text in wanted))
        require(extent.damage is None or extent.damage.size < 100_000)
        self._effects(lines)
        _check_versions()
        ends = replay.pending_responses()
        errors = [
            str(part.function_response.response.get("error"))
            for part in (() if ends is None else ends.parts)
            if part.function_response is not None
        ]
        self.unknown += errors.count(UNKNOWN_OUTCOME)
        self.not_started += errors.count(NOT_STARTED)

    def _effects(self, lines: list[bytes]) -> None:
        """Nothing was done twice, nothing that was not on record, and what was answered was."""
        done = Path("effects.txt").read_text().split() if Path("effects.txt").exists() else []
        require(len(done) == len(set(done)), "an effect was repeated")
        records = [record_of(line) for line in lines]
        begun = {item.call_id for item in records if isinstance(item, Started)}
        ended = {item.call_id for item in records if isinstance(item, Answered)}
        require(set(done) <= begun, f"not on record: {set(done) - begun}")
        require({each for each in ended if each.startswith("e-")} <= set(done))


def _check_versions() -> None:
    """The file is one of its versions, never a mix."""
    if Path("kept.txt").exists():
        lines = Path("kept.txt").read_text().splitlines()
        require(len(lines) == LINES and len(set(lines)) == 1, "a file is half written")


def require(condition: object, what: str = "out of order") -> None:
    if not condition:
        raise AssertionError(what)


def kill_once(life: int, waits: int, patience_s: float) -> str:
    """One life and its end, so long after it has reported so often; what it had said by then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(live(life, writing))
        finally:  # it lives until it is killed
            os.write(writing, f"failed {sys.exc_info()[1]!r}\n".encode())
            os._exit(1)
    os.close(writing)
    said = b""
    while said.count(b"\n") < waits and (data := os.read(reading, 65_536)):
        said += data
    if life % DEADLY:
        time.sleep(patience_s)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while select.select([reading], [], [], 0)[0] and (data := os.read(reading, 65_536)):
        said += data
    os.close(reading)
    return said.decode()


def main(seed: int, kills: int) -> dict[str, Any]:
    chance = random.Random(seed)
    witness = Witness()
    store = open_store(project_temp(os.environ, Path.cwd()))
    while witness.kills < kills:
        witness.kills += 1
        waits = chance.choice((0, 1, 1, 2, 3)) if witness.kills > 1 else 2
        witness.hear(kill_once(witness.kills, waits, chance.uniform(0, LONGEST_S)))
        found = store.summaries()
        require(len(found) <= 1 or witness.acknowledged == [], "a second session was begun")
        if found:
            witness.look(Path(store.find("latest").path))
        else:
            require(not witness.acknowledged, "the session is gone")
    return {
        "seed": seed,
        "kills": witness.kills,
        "acknowledged": len(witness.acknowledged),
        "unknown": witness.unknown,
        "not_started": witness.not_started,
    }


if __name__ == "__main__":
    print(msgspec.json.encode(main(int(sys.argv[1]), int(sys.argv[2]))).decode())
