import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.scheduler.executor import Executor
from alhena.system.processes import ProcessGroups
from alhena.tools.builtin.background import ListBackgroundProcesses, ReadBackgroundOutput
from alhena.tools.builtin.read_tool_output import ReadToolOutput
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolResult
from alhena.tools.output_store import OutputStore
from alhena.wire.content import ToolCallRequestInfo
from tests.scheduler.kit import SmallTool, Stage, response_of
from tests.tools.files import call, failure_type, text_of

LONG = "".join(f"ligne é {n}\n" for n in range(10_000))


def reading(offset: int) -> ToolCallRequestInfo:
    args = {"call_id": "c0", "offset": offset}
    return ToolCallRequestInfo(call_id="r", name="read_tool_output", args=args)


def keep_output(store: OutputStore, text: str = LONG) -> str:
    made = store.save("talker", "c0", text)
    assert made.path is not None, made.problem
    return str(made.path)


@pytest.mark.requirement("TOOLS-22")
async def test_a_long_result_can_be_read_on_without_any_file_tool(store: OutputStore) -> None:
    async def talk(params: dict[str, object], context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content=LONG)

    stage = Stage(
        SmallTool("talker", talk),
        ReadToolOutput(store),
        executor=Executor(Path.cwd(), outputs=store),
    )
    await stage.run("talker")
    offset, pieces = 0, []
    while offset < len(LONG):
        (done,) = await stage.run(reading(offset))
        heading, _, piece = response_of(done)["output"].partition("\n")
        pieces.append(piece)
        assert heading.startswith(
            f"Characters {offset:,} to {offset + len(piece):,} of {len(LONG):,}"
        )
        offset += len(piece)
        assert heading.endswith("This is its end." if offset == len(LONG) else f"offset={offset}.")
    assert "".join(pieces) == LONG
    assert len(pieces) > 2


async def test_a_negative_offset_counts_from_the_end(store: OutputStore) -> None:
    path = keep_output(store)
    text = text_of(await call(ReadToolOutput(store), path=path, offset=-20))
    assert text.split("\n", 1)[1] == LONG[-20:]
    whole = text_of(await call(ReadToolOutput(store), path=path, offset=-(10**9), limit=5))
    assert whole.split("\n", 1)[1] == LONG[:5]


@given(
    st.text(max_size=80).filter(lambda text: "\r" not in text),
    st.integers(-100, 100),
    st.integers(1, 50),
)
async def test_any_piece_is_the_slice_it_says_it_is(
    tmp_path_factory: pytest.TempPathFactory, text: str, offset: int, limit: int
) -> None:
    store = OutputStore(tmp_path_factory.mktemp("s"), "s1")
    path = keep_output(store, text)
    result = await call(ReadToolOutput(store), path=path, offset=offset, limit=limit)
    start = max(0, len(text) + offset) if offset < 0 else offset
    piece = text[start : start + limit]
    heading, _, shown = text_of(result).partition("\n")
    assert shown == piece
    if piece:
        assert heading.startswith(f"Characters {start} to {start + len(piece)} of {len(text)} of ")
    else:
        assert heading.startswith("Nothing at character")


async def test_a_piece_never_needs_shortening_itself(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, "s1", threshold=2_000)
    result = await call(ReadToolOutput(store), path=keep_output(store), limit=30_000)
    assert len(text_of(result)) <= 2_000


@pytest.mark.parametrize("params", [{}, {"path": ""}, {"path": "a", "call_id": "b"},
                                    {"path": "a", "limit": 0}, {"path": 3}])  # fmt: skip
def test_calls_that_name_nothing_or_two_things_are_refused(
    store: OutputStore, params: dict[str, object]
) -> None:
    failure = ReadToolOutput(store).build(params)
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.INVALID_TOOL_PARAMS


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "fifo.txt", "c7", "\ud800", "a\0b"])
async def test_nothing_but_kept_output_is_read(store: OutputStore, path: str) -> None:
    keep_output(store)
    os.mkfifo(store.directory / "fifo.txt")
    result = await call(ReadToolOutput(store), path=path)
    assert failure_type(result) in {ToolErrorType.FILE_NOT_FOUND, ToolErrorType.NOT_A_REGULAR_FILE}


async def test_a_file_removed_meanwhile_is_a_failure(store: OutputStore) -> None:
    path = keep_output(store)
    built = ReadToolOutput(store).build({"path": path})
    assert not isinstance(built, ToolFailure)
    assert [place.path for place in built.locations()] == [path]
    os.unlink(path)
    result = await built.execute(ExecutionContext(Path.cwd()))
    assert failure_type(result) == ToolErrorType.FILE_NOT_FOUND
    assert built.locations() == ()


ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats()
NAMES = st.sampled_from(["path", "call_id", "offset", "limit", "pid", "lines"])


@given(st.dictionaries(NAMES, ANYTHING, max_size=4))
async def test_whatever_the_arguments_a_reading_tool_answers(
    tmp_path_factory: pytest.TempPathFactory, params: dict[str, object]
) -> None:
    store = OutputStore(tmp_path_factory.mktemp("s"), "s1")
    keep_output(store, "text")
    groups = ProcessGroups()
    tools = ListBackgroundProcesses(groups), ReadBackgroundOutput(groups), ReadToolOutput(store)
    for tool in tools:
        result = await call(tool, **params)
        assert text_of(result)
        if result.error is not None:
            result.error.message.encode("utf-8")


async def test_what_another_session_of_the_project_named_is_read(
    store: OutputStore, tmp_path: Path
) -> None:
    earlier = OutputStore(tmp_path / "outputs", "earlier")
    path = keep_output(earlier, "what a call by itself has kept")
    text = text_of(await call(ReadToolOutput(store), path=path))
    assert text.endswith("\nwhat a call by itself has kept")
    by_id = await call(ReadToolOutput(store), call_id="c0")
    assert failure_type(by_id) == "file_not_found"


@pytest.mark.parametrize("way", ["project", "link", "hidden", "above", "deeper", "plain"])
async def test_another_projects_output_is_not_read(
    store: OutputStore, tmp_path: Path, way: str
) -> None:
    top = tmp_path / "outputs"
    keep_output(store)
    path = {
        "project": Path(keep_output(OutputStore(tmp_path / "others", "s1"))),
        "link": top / "session-link" / "a.txt",
        "hidden": top / "session-s1" / ".a.txt",
        "above": top / "session-s1" / ".." / "a.txt",
        "deeper": top / "session-s1" / "b" / "a.txt",
        "plain": top / "b" / "a.txt",
    }[way]
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.txt").write_text("secret", encoding="utf-8")
    (top / "session-link").symlink_to(tmp_path / "secret")
    for made in (top / "session-s1" / "b", top / "b"):
        made.mkdir()
        (made / "a.txt").touch()
    (top / "session-s1" / ".a.txt").touch()
    (top / "a.txt").touch()
    result = await call(ReadToolOutput(store), path=str(path))
    assert failure_type(result) == "file_not_found"
