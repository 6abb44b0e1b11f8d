"""google_web_search: what the model is asked, and what it sees of the answer."""

import asyncio
from pathlib import Path

import pytest

from alhena.tools.builtin.google_web_search import GoogleWebSearch
from alhena.tools.contract import ExecutionContext, Kind, ToolFailure
from alhena.tools.registry import declared_name
from alhena.wire.dialects.fields import DialectError
from alhena.wire.request import ToolDeclarations
from alhena.wire.response import GenerateContentResponse
from tests.tools.files import call, failure_type, text_of
from tests.tools.web import ScriptedModel, blocked_response, failing, response


@pytest.mark.requirement("TOOLS-18")
async def test_a_search_gives_the_answer_with_marks_and_sources() -> None:
    model = ScriptedModel(
        response(
            "Zürich liegt am See. Mehr.",
            groundingMetadata={
                "groundingChunks": [{"web": {"uri": "https://z.example/s", "title": "Zürich"}}],
                "groundingSupports": [
                    {"segment": {"endIndex": 21}, "groundingChunkIndices": [0]},
                ],
            },
        )
    )
    result = await call(GoogleWebSearch(model), query="Zürich")
    assert text_of(result) == (
        'Web search results for "Zürich":\n\nZürich liegt am See.[1] Mehr.\n\n'
        "Sources:\n[1] Zürich (https://z.example/s)"
    )
    assert result.display == 'Search results for "Zürich" returned.'
    assert result.data == {"sources": [{"title": "Zürich", "uri": "https://z.example/s"}]}
    (asked,) = model.asked
    assert (asked.text, asked.tools, asked.model) == (
        "Zürich",
        (ToolDeclarations(google_search={}),),
        None,
    )


async def test_an_answer_without_grounding_has_no_sources() -> None:
    result = await call(GoogleWebSearch(ScriptedModel(response("42"))), query="q")
    assert text_of(result) == 'Web search results for "q":\n\n42'


@pytest.mark.parametrize(
    "answer",
    [
        GenerateContentResponse(),
        response(),
        response(" \n"),
        response(finishReason="STOP"),
        response({"text": "hm", "thought": True}),
    ],
)
@pytest.mark.requirement("TOOLS-18")
async def test_an_empty_answer_is_no_result_and_no_error(answer: GenerateContentResponse) -> None:
    result = await call(GoogleWebSearch(ScriptedModel(answer)), query="q")
    assert text_of(result) == 'No search results or information found for query: "q"'
    assert result.error is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (blocked_response("SAFETY"), "the service blocked the prompt (SAFETY)"),
        (
            blocked_response("OTHER", "Not\nhere."),
            "the service blocked the prompt (OTHER): Not here.",
        ),
        (response(finishReason="SAFETY"), "before it said anything (SAFETY)"),
        (
            response(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="call:x"),
            "before it said anything (MALFORMED_FUNCTION_CALL): call:x",
        ),
    ],
)
@pytest.mark.requirement("TOOLS-18")
async def test_an_answer_that_the_service_keeps_back_is_a_failure_with_its_reason(
    answer: GenerateContentResponse, reason: str
) -> None:
    result = await call(GoogleWebSearch(ScriptedModel(answer)), query="q")
    assert failure_type(result) == "web_search_failed"
    assert reason in text_of(result)


async def test_a_text_with_an_unusual_end_is_given() -> None:
    answer = response("42", finishReason="MAX_TOKENS")
    assert "42" in text_of(await call(GoogleWebSearch(ScriptedModel(answer)), query="q"))


@pytest.mark.requirement("TOOLS-18")
async def test_a_failure_of_the_service_is_said() -> None:
    result = await call(GoogleWebSearch(ScriptedModel(failing())), query="q")
    assert failure_type(result) == "web_search_failed"
    assert text_of(result) == 'Error during web search for query "q": the service is down.'


async def test_a_call_cancelled_before_it_starts_asks_nobody() -> None:
    model = ScriptedModel()
    tool = GoogleWebSearch(model)
    built = tool.build({"query": "q"})
    assert not isinstance(built, ToolFailure)
    context = ExecutionContext(Path.cwd())
    context.cancellation.set()
    result = await built.execute(context)
    assert (text_of(result), failure_type(result)) == ("Web search was cancelled.", "cancelled")
    assert model.asked == []


async def test_cancelling_a_search_passes_through() -> None:
    model = ScriptedModel()
    model.hold = asyncio.Event().wait
    searching = asyncio.create_task(call(GoogleWebSearch(model), query="q"))
    await model.entered.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


@pytest.mark.parametrize("params", [{}, {"query": ""}, {"query": " \n"}, {"query": 3}])
async def test_a_search_for_nothing_is_refused(params: dict[str, object]) -> None:
    result = await call(GoogleWebSearch(ScriptedModel()), **params)
    assert failure_type(result) == "invalid_tool_params"
    assert "query" in text_of(result)


def test_the_tool_is_found_under_its_other_names() -> None:
    tool = GoogleWebSearch(ScriptedModel())
    assert declared_name("web_search") == declared_name("WebSearchTool") == tool.name
    assert (tool.kind, tool.display_name) == (Kind.FETCH, "GoogleSearch")


async def test_where_another_service_answers_the_model_is_told_that_there_is_no_search() -> None:
    error = DialectError("google_search is not supported.", "tools[0]")
    result = await call(GoogleWebSearch(ScriptedModel(error)), query="q")
    assert failure_type(result) == "web_search_failed"
    assert "only Gemini searches with Google" in text_of(result)
    assert "tools[0]" not in text_of(result)
