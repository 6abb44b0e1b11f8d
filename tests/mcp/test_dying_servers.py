"""Messages about a server that ends in the middle of a call."""

from pathlib import Path

import pytest

from alhena.frontends.shared.listings import state_words
from alhena.mcp.stdio import TAIL, Tail
from tests.mcp.kit import called, odd, rigged, tool


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ({"do": "dies", "says": "out of\nmemory", "code": 9}, "it exited with code 9: "),
        ({"do": "dies", "says": "out of\nmemory", "signal": 9}, "signal 9 ended it: "),
        ({"do": "dies", "says": "", "code": 9}, "it exited with code 9"),
    ],
    ids=["code", "signal", "nothing"],
)
async def test_the_call_is_told_how_a_server_ended_and_what_it_said_last(
    project: Path, does: dict[str, object], how: str
) -> None:
    script = {"tools": [tool("die")], "does": {"die": does}}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        result = await called(rig, "die")
        assert result.error is not None
        message = result.error.message
        assert f"the connection was closed before it answered: {how}" in message
        assert ("memory" in message) is bool(does["says"])
        await rig.until(lambda: any(how in each for each in rig.servers.reports()[0].notes))
        assert how in state_words(rig.servers.reports()[0])


async def test_what_it_said_holds_none_of_its_secrets_and_has_an_end(project: Path) -> None:
    token = "ghp_" + "a" * 36
    says = f"{'x' * 9_000}\nkey hunter2hunter2 and {token}"
    script = {"tools": [tool("die")], "does": {"die": {"do": "dies", "says": says, "code": 1}}}
    entry = odd(project, script) | {"env": {"SERVICE_PASSWORD": "hunter2hunter2"}}
    async with rigged({"odd": entry}, project) as rig:
        result = await called(rig, "die")
        assert result.error is not None
        told = result.error.message + "".join(rig.warnings) + str(rig.servers.reports())
        assert "key [redacted] and [redacted]" in result.error.message
        assert "hunter2" not in told
        assert token not in told
        assert "xxx" not in told
        assert len(result.error.message) < 1_000


def test_of_a_line_whose_beginning_is_gone_nothing_is_kept() -> None:
    tail = Tail()
    tail.feed(b"secret " * TAIL)
    assert tail.text == ""
    tail.feed(b"\nlast\n")
    assert tail.text == "last"


async def test_one_that_reads_no_more_is_started_again_and_what_it_said_is_kept(
    project: Path,
) -> None:
    script = {"tools": [tool("deaf")], "does": {"deaf": {"do": "deaf"}}}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert (await called(rig, "deaf")).error is None
        assert (await called(rig, "deaf")).error is None
        notes = rig.servers.reports()[0].notes
        assert any("it closed its input: I have had enough" in each for each in notes)
