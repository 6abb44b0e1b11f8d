import json
import os
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ModelError, StreamCutError
from alhena.models.errors import QuotaError, RecordingError
from alhena.models.providers.recorded import AnswerRecorder, RecordedGenerator
from alhena.wire.response import GenerateContentResponse
from tests.models.asking import MODEL, api, asked, chunks, contents, texts
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

STREAM = "generateContentStream"


def recording(path: Path, *lines: tuple[str, Any]) -> Path:
    rows = (json.dumps({"method": method, "response": response}) for method, response in lines)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


SESSION = (
    (STREAM, [text("a", None), text("b")]),
    ("countTokens", {"totalTokens": 7}),
    ("generateContent", text("c")),
    ("embedContent", {"embeddings": [{"values": [1.0, 2.0]}]}),
    (STREAM, [text("d")]),
)


async def test_a_strict_recording_answers_in_the_files_order(project: Path):
    generator = RecordedGenerator(recording(project / "r.jsonl", *SESSION))
    assert texts(await chunks(generator)) == ["a", "b"]
    assert await generator.count_tokens(contents("x"), model=MODEL) == 7
    assert (await generator.generate(asked())).parts[0].text == "c"
    embedded = await generator.embed(contents("x"), model=MODEL)
    assert embedded.embeddings[0].values == (1.0, 2.0)
    assert texts(await chunks(generator)) == ["d"]
    with pytest.raises(RecordingError, match=rf"r\.jsonl, line 6: expected .*{STREAM}.*end of the"):
        await chunks(generator)
    await generator.aclose()


async def test_a_strict_recording_refuses_another_method_than_the_next(project: Path):
    generator = RecordedGenerator(recording(project / "r.jsonl", *SESSION))
    with pytest.raises(RecordingError, match=rf"line 1: expected .*countTokens, got .*{STREAM}"):
        await generator.count_tokens(contents("x"), model=MODEL)
    await generator.aclose()


async def test_a_lenient_recording_gives_the_first_unused_line_of_the_method(project: Path):
    generator = RecordedGenerator(recording(project / "r.jsonl", *SESSION), strict=False)
    assert (await generator.generate(asked())).parts[0].text == "c"
    assert texts(await chunks(generator)) == ["a", "b"]
    assert texts(await chunks(generator)) == ["d"]
    assert await generator.count_tokens(contents("x"), model=MODEL) == 7
    with pytest.raises(RecordingError, match="generateContent"):
        await generator.generate(asked())
    await generator.embed(contents("x"), model=MODEL)
    await generator.aclose()


METHODS = st.lists(st.sampled_from([STREAM, "generateContent"]), max_size=12)


@given(METHODS.flatmap(lambda methods: st.tuples(st.just(methods), st.permutations(methods))))
async def test_a_lenient_recording_gives_each_line_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[str], list[str]]
):
    methods, order = drawn
    lines = [
        (method, [text(str(n))] if method == STREAM else text(str(n)))
        for n, method in enumerate(methods)
    ]
    path = recording(tmp_path_factory.getbasetemp() / "property.jsonl", *lines)
    came: dict[str, list[str]] = {STREAM: [], "generateContent": []}
    async with aclosing(RecordedGenerator(path, strict=False)) as generator:
        for method in order:
            streamed = method == STREAM
            whole = await chunks(generator) if streamed else [await generator.generate(asked())]
            came[method] += texts(whole)
    for method, said in came.items():
        assert said == [str(n) for n, one in enumerate(methods) if one == method]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2"),
        ("[1]", "line 2"),
        ('{"method": "generateContent"}', "line 2.*response"),
        ('{"method": "deleteEverything", "response": {}}', "line 2.*deleteEverything"),
        ('{"method": "generateContentStream", "response": {}}', "line 2.*list of chunks"),
        ('{"method": "generateContentStream", "response": [7]}', "line 2"),
        ('{"method": "generateContentStream", "response": [{"candidates": 1}]}', "line 2"),
        (
            '{"method": "generateContentStream", "response": [{"responseId": "\udce9"}]}',
            "line 2",
        ),
    ],
)
async def test_a_malformed_line_is_named_by_file_and_number(project: Path, line: str, reason: str):
    path = recording(project / "r.jsonl", (STREAM, [text("a")]))
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    generator = RecordedGenerator(path)
    await chunks(generator)
    with pytest.raises(RecordingError, match=rf"r\.jsonl, {reason}") as caught:
        await chunks(generator)
    await generator.aclose()
    assert "\n" not in str(caught.value)


async def test_malformed_counts_and_vectors_are_named_too(project: Path):
    lines = (("countTokens", {"totalTokens": "many"}), ("embedContent", {}))
    generator = RecordedGenerator(recording(project / "r.jsonl", *lines))
    with pytest.raises(RecordingError, match="line 1"):
        await generator.count_tokens(contents("x"), model=MODEL)
    with pytest.raises(RecordingError, match="line 2"):
        await generator.embed(contents("x"), model=MODEL)
    await generator.aclose()


async def test_blank_lines_a_bom_and_a_missing_last_line_end_are_no_trouble(project: Path):
    path = project / "r.jsonl"
    recording(path, (STREAM, [text("a")]), (STREAM, [text("b")]))
    rows = path.read_bytes().split(b"\n")
    path.write_bytes(b"\xef\xbb\xbf\r\n" + rows[0] + b"\r\n \r\n" + rows[1])
    generator = RecordedGenerator(path)
    assert texts(await chunks(generator)) == ["a"]
    assert texts(await chunks(generator)) == ["b"]
    await generator.aclose()


async def test_a_recorded_api_error_is_raised_like_a_live_one(project: Path):
    error = {"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}}
    lines = ((STREAM, [text("a", None), error]), ("countTokens", error))
    generator = RecordedGenerator(recording(project / "r.jsonl", *lines))
    stream = generator.stream(asked())
    assert texts([await anext(stream)]) == ["a"]
    with pytest.raises(QuotaError, match="Slow down"):
        await anext(stream)
    with pytest.raises(QuotaError):
        await generator.count_tokens(contents("x"), model=MODEL)
    await generator.aclose()


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "device", "nul"])
def test_a_path_that_is_no_file_is_refused_at_once(project: Path, kind: str):
    path = {"device": "/dev/zero", "nul": "a\0b"}.get(kind, str(project / kind))
    if kind == "directory":
        Path(path).mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(RecordingError):
        RecordedGenerator(path)
    if kind not in {"missing", "nul"}:
        with pytest.raises(RecordingError):
            AnswerRecorder(ScriptedGenerator(), path)
    if kind == "nul":
        with pytest.raises(RecordingError):
            AnswerRecorder(ScriptedGenerator(), path)


async def test_a_recorded_session_replays_to_the_same_chunks(server: ScriptedServer, project: Path):
    usage = {"promptTokenCount": 3, "totalTokenCount": 9, "thoughtsTokenCount": 2}
    server.reply(
        sse(
            chunk({"text": "**S** t", "thought": True}),
            chunk(call("f", {"a": [1, None, "\u2028\u00e9"]}, id="i", thoughtSignature="c2ln")),
            chunk({"text": "x"}, finish="STOP", usage=usage),
        ),
        json_reply(text("whole")),
        json_reply({"totalTokens": 5}),
        json_reply({"embeddings": [{"values": [0.25]}]}),
    )
    path = project / "session.jsonl"

    async def session(generator: AnswerRecorder | RecordedGenerator) -> list[Any]:
        said: list[Any] = [await chunks(generator), await generator.generate(asked())]
        said.append(await generator.count_tokens(contents("x"), model=MODEL))
        said.append(await generator.embed(contents("x"), model=MODEL))
        await generator.aclose()
        return said

    live = await session(AnswerRecorder(api(server.url), path))
    assert await session(RecordedGenerator(path)) == live
    assert len(path.read_bytes().splitlines()) == 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_only_answers_that_came_to_their_end_are_recorded(project: Path):
    path = project / "session.jsonl"
    whole, cut = [text("a", None), text("b")], [text("c", None), StreamCutError("cut")]
    inner = ScriptedGenerator(whole, cut, whole, [QuotaError("no")], whole)
    recorder = AnswerRecorder(inner, path)
    await chunks(recorder)
    with pytest.raises(StreamCutError):
        await chunks(recorder)
    left = recorder.stream(asked())
    await anext(left)
    await left.aclose()
    with pytest.raises(QuotaError):
        await recorder.generate(asked())
    await chunks(recorder)
    await recorder.aclose()
    assert inner.closed_early == 2
    expected = {"method": STREAM, "response": whole}
    rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]
    converted = [msgspec.convert(row["response"], list[GenerateContentResponse]) for row in rows]
    wanted = msgspec.convert(expected["response"], list[GenerateContentResponse])
    assert converted == [wanted, wanted]


async def test_each_answer_is_in_the_file_before_the_next_request(project: Path):
    path = project / "session.jsonl"
    recorder = AnswerRecorder(ScriptedGenerator([text("a")], [text("b")]), path)
    for count in (1, 2):
        await recorder.generate(asked())
        assert path.read_bytes().count(b"\n") == count
    await recorder.aclose()


async def test_a_half_line_of_an_earlier_crash_does_not_spoil_the_next(project: Path):
    path = project / "session.jsonl"
    path.write_bytes(b'{"method": "genera')
    recorder = AnswerRecorder(ScriptedGenerator([text("a")]), path)
    await recorder.generate(asked())
    await recorder.aclose()
    half, whole = path.read_bytes().splitlines()
    assert half == b'{"method": "genera'
    assert json.loads(whole)["method"] == "generateContent"


async def test_a_full_disk_leaves_no_half_line(project: Path):
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    path = project / "session.jsonl"
    recorder = AnswerRecorder(ScriptedGenerator([text("a")], [text("b" * 5000)]), path)
    await recorder.generate(asked())
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
        with pytest.raises(RecordingError, match=r"session\.jsonl"):
            await recorder.generate(asked())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    await recorder.aclose()
    assert path.read_bytes() == before


def test_a_recording_error_is_a_model_error():
    assert issubclass(RecordingError, ModelError)
