"""Services that know the older form of declarations only."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from alhena.models.errors import RequestRejectedError
from alhena.models.providers.gemini_api import OlderSchemas
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import ConformanceError
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolConfig,
    ToolDeclarations,
)
from alhena.wire.response import GenerateContentResponse
from tests.models.asking import api
from tests.support.server import ScriptedServer, json_reply, sse, text

SCHEMA = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
OLDER = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
UNKNOWN = {
    "error": {
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": 'Invalid JSON payload received. Unknown name "parametersJsonSchema" at '
        "'tools[0].function_declarations[0]': Cannot find field.",
    }
}


def request_of(*tools: ToolDeclarations) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="gemini-2.5-flash",
        contents=(EncodedContent(text_content("user", "hi")),),
        config=GenerateContentConfig(tools=tools or None),
    )


def declared(**schemas: Any) -> ToolDeclarations:
    return ToolDeclarations(
        function_declarations=tuple(
            FunctionDeclaration(name=name, description="d", parameters_json_schema=schema)
            for name, schema in schemas.items()
        )
    )


async def said(stream: AsyncIterator[GenerateContentResponse]) -> str:
    return "".join([part.text or "" async for chunk in stream for part in chunk.parts])


def generator(server: ScriptedServer, told: list[str] | None = None) -> OlderSchemas:
    return OlderSchemas(api(server.url), (told if told is not None else []).append)


def declarations(server: ScriptedServer, index: int) -> list[dict[str, Any]]:
    return server.requests[index].json["tools"][0]["functionDeclarations"]


async def test_a_service_that_refuses_the_form_is_asked_in_the_older_one_from_then_on(
    server: ScriptedServer,
):
    server.reply(json_reply(UNKNOWN, 400), sse(text("one")), sse(text("two")))
    asking = generator(server)
    request = request_of(declared(f=SCHEMA))
    assert await said(asking.stream(request)) == "one"
    assert await said(asking.stream(request)) == "two"
    await asking.aclose()
    assert declarations(server, 0)[0]["parametersJsonSchema"] == SCHEMA
    for index in (1, 2):
        (declaration,) = declarations(server, index)
        assert declaration["parameters"] == OLDER
        assert "parametersJsonSchema" not in declaration
    assert len(server.requests) == 3


async def test_a_whole_answer_is_asked_for_again_likewise(server: ScriptedServer):
    server.reply(json_reply(UNKNOWN, 400), json_reply(text("one")))
    asking = generator(server)
    response = await asking.generate(request_of(declared(f=SCHEMA)))
    await asking.aclose()
    assert response.parts[0].text == "one"
    assert declarations(server, 1)[0]["parameters"] == OLDER


async def test_a_refusal_of_the_older_form_is_the_end_of_it(server: ScriptedServer):
    server.reply(json_reply(UNKNOWN, 400), json_reply(UNKNOWN, 400))
    asking = generator(server)
    with pytest.raises(RequestRejectedError):
        await said(asking.stream(request_of(declared(f=SCHEMA))))
    await asking.aclose()
    assert len(server.requests) == 2


async def test_other_refusals_and_requests_without_declarations_are_not_asked_again(
    server: ScriptedServer,
):
    other = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "too hot"}}
    server.reply(json_reply(other, 400), json_reply(UNKNOWN, 400))
    asking = generator(server)
    for request in (request_of(declared(f=SCHEMA)), request_of()):
        with pytest.raises(RequestRejectedError):
            await said(asking.stream(request))
    await asking.aclose()
    assert len(server.requests) == 2


async def test_tools_without_an_older_form_are_told_of_and_the_others_declared(
    server: ScriptedServer,
):
    told: list[str] = []
    server.reply(json_reply(UNKNOWN, 400), sse(text("one")))
    asking = generator(server, told)
    request = request_of(declared(f=SCHEMA, bad={"type": "string"}))
    assert await said(asking.stream(request)) == "one"
    await asking.aclose()
    assert [item["name"] for item in declarations(server, 1)] == ["f"]
    assert len(told) == 1
    assert '"bad"' in told[0]


async def test_what_is_said_anew_is_checked_before_it_is_sent(server: ScriptedServer):
    server.reply(json_reply(UNKNOWN, 400), sse(text("not asked for")))
    asking = generator(server)
    request = request_of(declared(f=SCHEMA, lost={"type": "string"}))
    calling = FunctionCallingConfig(mode=FunctionCallingMode.ANY, allowed_function_names=("lost",))
    config = msgspec.structs.replace(
        request.config, tool_config=ToolConfig(function_calling_config=calling)
    )
    with pytest.raises(ConformanceError, match="T13"):
        await said(asking.stream(msgspec.structs.replace(request, config=config)))
    await asking.aclose()
    assert len(server.requests) == 1
