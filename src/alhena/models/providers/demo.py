"""The demo model: answers from fixed rules, without a key and without a network."""

import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from alhena.models.catalogue import DEMO
from alhena.models.errors import RequestRejectedError
from alhena.models.generator import WithoutEmbeddings
from alhena.wire.content import MODEL, Content, FunctionCall, FunctionResponse, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import FunctionCallingMode, GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

LONGEST = 2000
"""Maximum characters of a prompt that are parsed as a request."""

ATTACHED = "--- Content from referenced files ---"
HELP = """I understand these requests, also several in one prompt (`;` between them):

- list FOLDER · read FILE · find PATTERN · search for "TEXT" in FOLDER
- what is this project?
- write "TEXT" to FILE · replace "OLD" with "NEW" in FILE
- run `COMMAND` · remember that FACT
- call TOOL with NAME=VALUE (or a JSON object)"""


class DemoCall(msgspec.Struct, frozen=True):
    """A tool call to make. The values of `texts` are not yet converted to the declared types."""

    name: str
    args: dict[str, Any]
    texts: dict[str, str] = {}


_QUOTED = r"`[^`]*`|\"[^\"]*\"|“[^”]*”|'[^']*'(?!\w)"
_VERB = (
    r"list|ls|show|read|cat|open|find|search|grep|what|explain|describe|write|save|create|replace"
    r"|run|execute|remember|call|use"
)
_SEAM = rf"\s*(?:;|\n|[.?!](?=\s|$)|,?\s+(?:and\s+)?then\s|,?\s+and\s+(?={_VERB}\b))"
_CLAUSE = re.compile(rf"(?:{_QUOTED}|\{{[^{{}}]*\}}|(?!{_SEAM}).)+", re.IGNORECASE)
_LEAD = re.compile(
    r"^(?:(?:please|now|first|next|then|and|also|hi|hello|ok|(?:can|could|would)\s+you)[\s,]+)+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:[\s,]+please)?[\s,:.!?]*$", re.IGNORECASE)
_AT = re.compile(r"(?<!\S)@(?=\S)")
_HERE = r"this\s+(?:folder|directory)|the\s+(?:current\s+)?(?:folder|directory)|here"
_PATH = rf"(?P<path>{_QUOTED}|{_HERE}|\S+)"
_IN = rf"(?:\s+(?:in|under|within)\s+{_PATH})?"


def _list(found: dict[str, str]) -> list[DemoCall]:
    return [DemoCall("list_directory", {"path": _path(found)})]


def _read(found: dict[str, str]) -> list[DemoCall]:
    return [DemoCall("read_file", {"absolute_path": _path(found)})]


def _find(found: dict[str, str]) -> list[DemoCall]:
    pattern = _strip_quotes(found["pattern"])
    return [
        DemoCall("glob", {"pattern": pattern if "/" in pattern else f"**/{pattern}"} | _at(found))
    ]


def _search(found: dict[str, str]) -> list[DemoCall]:
    literal = re.sub(r"[][.^$*+?{}\\|()]", r"\\\g<0>", _strip_quotes(found["text"]))
    return [DemoCall("search_file_content", {"pattern": literal} | _at(found))]


def _explain(_found: dict[str, str]) -> list[DemoCall]:
    return [
        DemoCall("list_directory", {"path": "."}),
        DemoCall("read_file", {"absolute_path": "README.md"}),
    ]


def _write(found: dict[str, str]) -> list[DemoCall]:
    text = _strip_quotes(found["text"]) + "\n"
    return [DemoCall("write_file", {"file_path": _path(found), "content": text})]


def _replace(found: dict[str, str]) -> list[DemoCall]:
    old, new = _strip_quotes(found["old"]), _strip_quotes(found["new"])
    return [DemoCall("replace", {"file_path": _path(found), "old_string": old, "new_string": new})]


def _run(found: dict[str, str]) -> list[DemoCall]:
    return [DemoCall("run_shell_command", {"command": _strip_quotes(found["command"])})]


def _remember(found: dict[str, str]) -> list[DemoCall]:
    return [DemoCall("save_memory", {"fact": found["fact"]})]


def _call(found: dict[str, str]) -> list[DemoCall]:
    given = found.get("args", "")
    if given.startswith("{"):
        try:
            return [DemoCall(found["tool"], msgspec.json.decode(given, type=dict[str, Any]))]
        except msgspec.MsgspecError:
            return []
    pairs = re.findall(rf"(\w+)\s*=\s*({_QUOTED}|[^\s,]+)", given)
    if given and not pairs:
        return []
    return [DemoCall(found["tool"], {}, {key: _strip_quotes(value) for key, value in pairs})]


_RULES: tuple[tuple[str, Callable[[dict[str, str]], list[DemoCall]]], ...] = (
    (r"(?:run|execute)\s+(?P<command>.+)", _run),
    (r"remember\s+(?:that\s+)?(?P<fact>.+)", _remember),
    (r"(?:call|use)\s+(?:the\s+tool\s+)?(?P<tool>[\w.-]+)(?:\s+with\s+(?P<args>.+))?", _call),
    (
        (
            r"(?:what\s+is|what's|explain|describe|summari[sz]e)\s+(?:this|the)\s+"
            r"(?:project|repository|repo|code|codebase)\b.*"
        ),
        _explain,
    ),
    (
        rf"replace\s+(?P<old>{_QUOTED})\s+(?:with|by)\s+(?P<new>{_QUOTED})\s+in\s+{_PATH}",
        _replace,
    ),
    (rf"(?:write|save)\s+(?P<text>{_QUOTED})\s+(?:in)?to\s+{_PATH}", _write),
    (
        (
            rf"(?:create|write|make)\s+(?:an?\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+)?{_PATH}"
            rf"\s+(?:with|containing|that\s+says)\s+(?P<text>{_QUOTED})"
        ),
        _write,
    ),
    (rf"(?:search|grep)\s+(?:for\s+)?(?P<text>{_QUOTED}|\S+){_IN}", _search),
    (
        (
            r"(?:find|glob)\s+(?:all\s+)?(?:files?\s+)?(?:(?:named|called|matching)\s+)?"
            rf"(?P<pattern>{_QUOTED}|\S+)(?:\s+files)?{_IN}"
        ),
        _find,
    ),
    (rf"(?:(?:list|ls)|show\s+files\s+in|what(?:'s|\s+is)\s+in)(?:\s+{_PATH})?", _list),
    (rf"(?:list|show)\s+(?:all\s+|me\s+)?(?:the\s+)?files{_IN}", _list),
    (rf"(?:read|show|cat|open)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_PATH}", _read),
)


def parse(prompt: str) -> tuple[tuple[DemoCall, ...], tuple[str, ...]]:
    """Parses the calls a prompt requests, in order, and the clauses without a rule.

    Of several paragraphs the last one is the request: piped text comes before it, the content of
    @files after it.
    """
    prompt = _AT.sub("", prompt.partition(ATTACHED)[0])
    request = re.split(r"\n[ \t\r]*\n", prompt.strip())[-1][:LONGEST]
    calls: list[DemoCall] = []
    unknown: list[str] = []
    for match in _CLAUSE.finditer(request):
        clause = _TAIL.sub("", _LEAD.sub("", match[0].strip(), count=1))
        if not clause:
            continue
        made = _understood(clause)
        calls += made
        unknown += [] if made else [clause]
    return tuple(calls), tuple(unknown)


def _understood(clause: str) -> list[DemoCall]:
    for pattern, make in _RULES:
        match = re.fullmatch(pattern, clause, re.IGNORECASE)
        if match is not None:
            return make({key: value for key, value in match.groupdict().items() if value})
    return []


def _path(found: dict[str, str]) -> str:
    path = _strip_quotes(found.get("path", "."))
    return "." if re.fullmatch(_HERE, path, re.IGNORECASE) else path


def _at(found: dict[str, str]) -> dict[str, str]:
    return {"path": _path(found)} if "path" in found else {}


def _strip_quotes(text: str) -> str:
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text


NOTICE = "Demo mode: this answer comes from fixed rules, not a model."
COMPLETE_TASK = "complete_task"
SHOWN_LINES = 40
_BYTES_PER_TOKEN = 4
_CHUNKS = 8
_FEWEST_CHARACTERS_PER_CHUNK = 120


class DemoGenerator(WithoutEmbeddings):
    """Executes simple requests through the declared tools, one call per turn."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer. Raises RequestRejectedError for a JSON format."""
        answer = _DemoAnswer(request)
        return answer.response(answer.parts, last=True)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        """Yields the call in one chunk, or the text in a few. Raises RequestRejectedError for a
        JSON format."""
        answer = _DemoAnswer(request)
        chunks = list(answer.chunks())
        for number, parts in enumerate(chunks, 1):
            yield answer.response(parts, last=number == len(chunks))

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """An estimate: a token for every four bytes of JSON."""
        del model
        return _tokens(sum(map(len, contents)))

    async def aclose(self) -> None:
        """Does nothing: no resources are open."""


class _DemoAnswer:
    """The parts that answer a request: one call, or text."""

    def __init__(self, request: GenerateContentRequest) -> None:
        generation = request.config.generation_config
        if generation and (
            generation.response_mime_type == "application/json"
            or generation.response_schema is not None
            or generation.response_json_schema is not None
        ):
            raise _rejection("the demo model cannot answer in JSON.")
        self._request = request
        self._stamp = _stamp(request)
        answer = _choose_step(request)
        if isinstance(answer, DemoCall):
            call = FunctionCall(id=f"{DEMO}-{self._stamp}", name=answer.name, args=answer.args)
            self.parts = (Part(function_call=call),)
        else:
            self.parts = (Part(text=f"{NOTICE}\n\n{answer}"),)

    def chunks(self) -> Iterator[tuple[Part, ...]]:
        """The parts as they stream."""
        text = self.parts[0].text
        if text is None:
            yield self.parts
            return
        size = max(_FEWEST_CHARACTERS_PER_CHUNK, len(text) // _CHUNKS)
        for start in range(0, len(text), size):
            yield (Part(text=text[start : start + size]),)

    def response(self, parts: tuple[Part, ...], *, last: bool) -> GenerateContentResponse:
        """Parts of this answer as a response; the last one includes the finish reason and the
        usage."""
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts),
            finish_reason=FinishReason.STOP if last else None,
        )
        return GenerateContentResponse(
            candidates=(candidate,),
            usage_metadata=self._usage() if last else None,
            model_version=DEMO,
            response_id=f"{DEMO}-{self._stamp}",
        )

    def _usage(self) -> UsageMetadata:
        config = msgspec.json.encode(self._request.config)
        prompt = _tokens(sum(map(len, self._request.contents)) + len(config))
        said = _tokens(len(msgspec.json.encode(self.parts)))
        return UsageMetadata(
            prompt_token_count=prompt,
            candidates_token_count=said,
            total_token_count=prompt + said,
        )


def _choose_step(request: GenerateContentRequest) -> DemoCall | str:
    """The next call of the last prompt, or the report once all calls are answered."""
    prompt, responses = _conversation(request)
    tools = _tool_schemas(request.config)
    asked, unknown = parse(prompt)
    calls = [_convert_arguments(call, tools[call.name]) for call in asked if call.name in tools]
    missing = dict.fromkeys(call.name for call in asked if call.name not in tools)
    if len(responses) < len(calls):
        return calls[len(responses)]
    parts = [
        _describe_result(call, response) for call, response in zip(calls, responses, strict=False)
    ]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"Not available here: {names}.")
    if unknown:
        parts.append(f"No rule covers: {'; '.join(unknown)}\n\n{HELP}")
    report = "\n\n".join(parts) or HELP
    if COMPLETE_TASK in tools and len(responses) == len(calls):
        return DemoCall(COMPLETE_TASK, _fill_schema(tools[COMPLETE_TASK], f"{NOTICE}\n\n{report}"))
    return report


def _conversation(request: GenerateContentRequest) -> tuple[str, list[FunctionResponse]]:
    """The last prompt, and the responses to the calls after it."""
    responses: list[FunctionResponse] = []
    for encoded in reversed(request.contents):
        content = encoded.content
        if content.role == MODEL:
            continue
        found = [part.function_response for part in content.parts if part.function_response]
        if not found:
            texts = (part.text for part in content.parts if part.text and not part.thought)
            return "\n\n".join(texts), responses
        responses = found + responses
    return "", responses


def _tool_schemas(config: GenerateContentConfig) -> dict[str, dict[str, Any]]:
    """The schemas of the callable tools, by name."""
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling and calling.mode is FunctionCallingMode.NONE:
        return {}
    allowed = calling.allowed_function_names if calling else None
    return {
        declaration.name: declaration.parameters_json_schema or declaration.parameters or {}
        for tool in config.tools or ()
        for declaration in tool.function_declarations or ()
        if not allowed or declaration.name in allowed
    }


def _convert_arguments(call: DemoCall, schema: dict[str, Any]) -> DemoCall:
    """Converts the call's texts to the declared types if possible."""
    args = dict(call.args)
    for key, text in call.texts.items():
        args[key] = text
        if str(_properties(schema).get(key, {}).get("type", "string")).lower() != "string":
            try:
                args[key] = msgspec.json.decode(text)
            except msgspec.MsgspecError:
                continue
    return DemoCall(call.name, args)


def _fill_schema(schema: dict[str, Any], text: str) -> Any:
    """A value of this schema that contains `text`: in all required strings; arrays are empty."""
    match str(schema.get("type", "string")).lower():
        case "object":
            properties = _properties(schema)
            required = cast("list[str]", schema.get("required") or list(properties))
            return {name: _fill_schema(properties.get(name, {}), text) for name in required}
        case "array":
            return []
        case _:
            return text


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", schema.get("properties") or {})


def _describe_result(call: DemoCall, response: FunctionResponse) -> str:
    """A call and the beginning of its result."""
    body = response.response
    given = ", ".join(f"{key}={value!r}" for key, value in call.args.items())
    if "error" in body:
        return f"`{call.name}` failed ({given}): {_text(body['error'])}"
    lines = _text(body.get("output", body)).strip("\n").split("\n")
    more = len(lines) - SHOWN_LINES
    shown = "\n".join([*lines[:SHOWN_LINES], *([f"… {more} more lines"] if more > 0 else [])])
    return f"`{call.name}` ({given}):\n\n````\n{shown}\n````"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")


def _rejection(problem: str) -> RequestRejectedError:
    return RequestRejectedError(problem, remedy="Set GEMINI_API_KEY to use a model.")


def _stamp(request: GenerateContentRequest) -> str:
    """An identifier of a request, from the number and the bytes of its contents."""
    checksum = 0
    for content in request.contents:
        checksum = zlib.crc32(bytes(content.raw), checksum)
    return f"{len(request.contents)}-{checksum:08x}"


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
