"""The rehearsal behind the protocol of a model."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.models.errors import RequestRejectedError
from alhena.models.generator import ContentGenerator
from alhena.models.rehearsal.generator import RehearsalGenerator
from alhena.models.rehearsal.report import NOTICE
from alhena.wire.content import USER, Blob, Content, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    Tool,
    ToolConfig,
)
from alhena.wire.response import GenerateContentResponse
from tests.rehearsal.folder_tools import PARAMETERS, declaration

ALL_TOOLS = (Tool(function_declarations=tuple(map(declaration, PARAMETERS))),)


def request(
    *contents: Content, config: GenerateContentConfig | None = None
) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="rehearsal",
        contents=tuple(map(EncodedContent, contents)),
        config=config or GenerateContentConfig(tools=ALL_TOOLS),
    )


async def streamed(asked: GenerateContentRequest) -> list[GenerateContentResponse]:
    return [chunk async for chunk in RehearsalGenerator().stream(asked)]


def text_of(chunks: list[GenerateContentResponse]) -> str:
    return "".join(p.text or "" for chunk in chunks for p in chunk.parts if not p.thought)


def response(name: str, body: dict[str, Any], id: str | None = None) -> Part:
    return Part(function_response=FunctionResponse(id=id, name=name, response=body))


async def test_calls_stream_as_a_thought_and_then_calls_with_ids() -> None:
    chunks = await streamed(request(text_content(USER, "list src and read a.md")))
    thought, *calls = [part for chunk in chunks for part in chunk.parts]
    assert thought.thought
    assert (thought.text or "").startswith("**Using the workspace** ")
    made = [part.function_call for part in calls if part.function_call]
    assert [(call.name, call.args) for call in made] == [
        ("list_directory", {"path": "src"}),
        ("read_file", {"absolute_path": "a.md"}),
    ]
    assert len(calls) == len(made) == len({call.id for call in made if call.id})


async def test_the_last_chunk_alone_ends_the_answer_and_counts_tokens() -> None:
    chunks = await streamed(request(text_content(USER, "call nothing")))
    assert len(chunks) >= 3
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["STOP"]
    assert [chunk.usage_metadata for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    usage = chunks[-1].usage_metadata
    assert usage is not None
    assert usage.prompt_token_count > 100
    assert usage.candidates_token_count > 20
    assert usage.thoughts_token_count > 0
    assert usage.total_token_count == (
        usage.prompt_token_count + usage.candidates_token_count + usage.thoughts_token_count
    )


async def test_more_in_the_request_counts_more_tokens() -> None:
    short = await streamed(request(text_content(USER, "read a.md")))
    asked = request(text_content(USER, "x" * 4000), text_content(USER, "read a.md"))
    long = await streamed(asked)
    assert short[-1].usage_metadata
    assert long[-1].usage_metadata
    more = long[-1].usage_metadata.prompt_token_count - short[-1].usage_metadata.prompt_token_count
    assert 1000 <= more <= 1030


async def test_the_answer_in_one_piece_is_the_streamed_one() -> None:
    for prompt in ("read a.md", "call nothing"):
        asked = request(text_content(USER, prompt))
        chunks = await streamed(asked)
        whole = await RehearsalGenerator().generate(asked)
        assert text_of([whole]) == text_of(chunks)
        assert whole.finish_reason == "STOP"
        assert whole.usage_metadata == chunks[-1].usage_metadata
        assert [p.function_call for p in whole.parts if p.function_call] == [
            p.function_call for chunk in chunks for p in chunk.parts if p.function_call
        ]


async def test_a_generator_can_be_left_in_the_middle_of_an_answer() -> None:
    generator: ContentGenerator = RehearsalGenerator()
    async for chunk in generator.stream(request(text_content(USER, "hi"))):
        assert chunk.parts[0].thought
        break
    await generator.aclose()


async def test_the_first_environment_content_is_not_taken_for_the_prompt() -> None:
    asked = request(
        text_content(USER, "run `true`"),
        text_content("model", "Got it. Thanks for the context!"),
        text_content(USER, "list src"),
    )
    (call,) = [p.function_call for c in await streamed(asked) for p in c.parts if p.function_call]
    assert call.name == "list_directory"


async def test_a_content_of_media_alone_is_answered_with_what_can_be_done() -> None:
    image = Content(role=USER, parts=(Part(inline_data=Blob(mime_type="image/png", data="AA==")),))
    asked = request(image, config=GenerateContentConfig())
    assert "What these rules can do" in text_of(await streamed(asked))


async def test_an_empty_request_is_answered() -> None:
    assert NOTICE in text_of(await streamed(request(config=GenerateContentConfig())))


@pytest.mark.parametrize(
    "calling",
    [
        FunctionCallingConfig(mode=FunctionCallingMode.NONE),
        FunctionCallingConfig(mode=FunctionCallingMode.ANY, allowed_function_names=("glob",)),
    ],
)
async def test_tools_that_may_not_be_called_are_not(calling: FunctionCallingConfig) -> None:
    config = GenerateContentConfig(
        tools=ALL_TOOLS, tool_config=ToolConfig(function_calling_config=calling)
    )
    chunks = await streamed(request(text_content(USER, "read a.md"), config=config))
    assert "`read_file` is not available here" in text_of(chunks)


async def test_parameters_take_the_names_that_are_declared() -> None:
    other = FunctionDeclaration(
        name="read_file",
        parameters={"type": "OBJECT", "properties": {"file_path": {"type": "STRING"}}},
    )
    config = GenerateContentConfig(tools=(Tool(function_declarations=(other,)),))
    chunks = await streamed(request(text_content(USER, "read a.md"), config=config))
    (call,) = [p.function_call for chunk in chunks for p in chunk.parts if p.function_call]
    assert call.args == {"file_path": "a.md"}


async def test_a_denied_call_is_reported_with_the_flag_that_allows_it() -> None:
    asked = request(
        text_content(USER, "run `ls`"),
        Content(
            role=USER,
            parts=(response("run_shell_command", {"error": "Tool execution denied by policy."}),),
        ),
    )
    answer = text_of(await streamed(asked))
    assert "answered: Tool execution denied by policy. `--approval-mode yolo` would" in answer


async def test_an_answer_in_json_is_refused_with_the_remedy() -> None:
    for generation in (
        GenerationConfig(response_mime_type="application/json"),
        GenerationConfig(response_json_schema={"type": "object"}),
    ):
        asked = request(
            text_content(USER, "hi"), config=GenerateContentConfig(generation_config=generation)
        )
        with pytest.raises(RequestRejectedError, match="GEMINI_API_KEY"):
            await RehearsalGenerator().generate(asked)
        with pytest.raises(RequestRejectedError, match="no language model"):
            await streamed(asked)


async def test_tokens_are_counted_by_size() -> None:
    contents = [EncodedContent(text_content(USER, "x" * 400))]
    counted = await RehearsalGenerator().count_tokens(contents, model="rehearsal")
    assert counted == -(-len(contents[0]) // 4)


async def test_vectors_are_closer_for_texts_that_share_words() -> None:
    texts = ("red stars shine at night", "stars shine red", "tax forms 1040", "")
    contents = [EncodedContent(text_content(USER, text)) for text in texts]
    answer = await RehearsalGenerator().embed(contents, model="rehearsal")
    first, near, far, empty = (embedding.values for embedding in answer.embeddings)
    assert sum(a * b for a, b in zip(first, near, strict=True)) > 0.5
    assert sum(a * b for a, b in zip(first, far, strict=True)) < 0.5
    assert abs(sum(value * value for value in first) - 1) < 1e-9
    assert not any(empty)


PROMPTS = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=200),
    st.lists(
        st.sampled_from(
            [
                "list src", "describe this folder", "explain this project", "find *.py", "grep x",
                "read a.md", "summarise a.json", "summarise pyproject.toml", "hello",
                'replace "a" with "b" in a.txt', 'create a.txt with "x"', "run `ls`",
                'remember "x"', "call glob with pattern=x",
            ]
        ),
        min_size=1,
        max_size=30,
    ).map("; ".join),
)  # fmt: skip
PART_OF_A_FILE = (
    "\nIMPORTANT: cut.\nStatus: Showing lines 1-2 of 90 total lines.\n"
    "--- FILE CONTENT (truncated) ---\na\nb"
)
TEXTS = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=100),
    st.sampled_from(
        [
            "Directory listing for /w:\n[DIR] src\nREADME.md (3 bytes)\npyproject.toml (9 bytes)\n",
            'Found 1 file(s) matching "*" within /w:\n/w/a.py',
            "Found 1 matches for pattern:\n---\nFile: a\nL1: x\n---\n",
            PART_OF_A_FILE,
            "Command: x\nOutput: y\nError: (none)\nExit Code: 0\nSignal: (none)",
            "a a a",
            "",
        ]
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)
BODIES = st.one_of(
    st.fixed_dictionaries({"output": TEXTS}),
    st.fixed_dictionaries({"error": TEXTS}),
    st.dictionaries(st.sampled_from(["output", "error", "x"]), JSON, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(PROMPTS, st.data())
async def test_any_prompt_ends_within_twelve_turns_whatever_tools_answer(
    prompt: str, data: st.DataObject
) -> None:
    history = [text_content(USER, prompt)]
    ids: list[str | None] = []
    for _turn in range(12):
        asked = request(*history)
        chunks = await streamed(asked)
        assert msgspec.json.encode(chunks) == msgspec.json.encode(await streamed(asked))
        parts = tuple(p for chunk in chunks for p in chunk.parts if not p.thought)
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            answer = text_of(chunks)
            assert answer.startswith(NOTICE + "\n")
            assert answer.removeprefix(NOTICE).strip()
            break
        ids.extend(call.id for call in calls)
        assert {call.name for call in calls} <= set(PARAMETERS)
        answers = [response(call.name, data.draw(BODIES), call.id) for call in calls]
        if data.draw(st.integers(0, 9)) == 0:
            answers = [*answers[:-1], response("other", {"output": "x"})]
        history += [Content(role="model", parts=parts), Content(role=USER, parts=tuple(answers))]
    else:
        raise AssertionError("still calling after 12 turns")
    assert all(ids)
    assert len(set(ids)) == len(ids)


async def test_more_work_than_twelve_turns_is_said_to_be_left() -> None:
    prompt = "; ".join(f'create f{number}.txt with "x"' for number in range(20))
    history = [text_content(USER, prompt)]
    for _turn in range(11):
        chunks = await streamed(request(*history))
        parts = tuple(p for chunk in chunks for p in chunk.parts if not p.thought)
        assert parts[0].function_call
        done = response("write_file", {"output": "done"}, parts[0].function_call.id)
        history += [Content(role="model", parts=parts), Content(role=USER, parts=(done,))]
    answer = text_of(await streamed(request(*history)))
    assert "Wrote 1 character to `f10.txt`" in answer
    assert "f11.txt" not in answer
    assert "I stop after 12 turns; not everything was done. Still to call: write_file." in answer
