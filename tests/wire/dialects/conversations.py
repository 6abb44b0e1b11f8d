"""Conversations in other dialects, in the one form that survives the way to Gemini and back."""

import json
from itertools import count
from typing import Any

from hypothesis import strategies as st

from alhena.wire.dialects.conversation import NewId

TOOLS = ("read_file", "mcp__server__look", "9lives", "a" * 80, "ünïcode tool")

# Drawn from short lists: what matters is how blocks follow each other.
texts = st.sampled_from(
    [
        *("a", " ", "two\nlines", "\n", "\u2028é😀", "[media x]", '{"a": 1}'),
        *("[media 1]", "a\n[[media 2]]\n", "[[media 1]"),
    ]
)
scalars = st.sampled_from([None, True, 0, -(2**53), 1.5, -0.25, "", "text", "\u2028", "\x00"])
values = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(texts, scalars))
arguments = st.dictionaries(texts, values, max_size=2)
opaque = st.sampled_from(["AA==", "AQID", "//79", "YWJjZA=="])
pixels = st.sampled_from(["AAAA", "/9j/", "iVBORw0KGgo="])


def ids(prefix: str = "new") -> NewId:
    """Ids that say how many were made before."""
    numbers = count(1)
    return lambda name: f"{prefix}-{name}-{next(numbers)}"


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def source(kind: str, media_type: str, data: str) -> dict[str, Any]:
    return {"type": kind, "media_type": media_type, "data": data}


anthropic_media = st.one_of(
    st.builds(
        lambda mime, data: block("image", source=source("base64", mime, data)),
        st.sampled_from(["image/png", "image/jpeg", "image/webp"]),
        pixels,
    ),
    st.just(block("image", source={"type": "url", "url": "https://example.org/a.png"})),
    st.just(block("document", source=source("base64", "application/pdf", "JVBERi0="))),
    st.just(block("document", source={"type": "url", "url": "https://example.org/a.pdf"})),
    st.builds(lambda text: block("document", source=source("text", "text/plain", text)), texts),
)
anthropic_text = st.builds(lambda text: block("text", text=text), texts)


def without_neighbours(blocks: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The blocks, of those of one kind side by side the first only."""
    return [
        item
        for at, item in enumerate(blocks)
        if not (at and item["type"] == kind == blocks[at - 1]["type"])
    ]


@st.composite
def anthropic_thoughts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draws blocks that may precede an assistant's block: none, a thought, a signature, all."""
    found: list[dict[str, Any]] = []
    for kind in draw(
        st.lists(st.sampled_from(["foreign", "own", "next", "bare", "redacted"]), max_size=2)
    ):
        signature = draw(opaque)
        if kind == "redacted":
            found.append(block("redacted_thinking", data=signature))
            continue
        word = {"foreign": "", "own": "gemini-own:", "next": "gemini:"}.get(kind)
        kept = "" if word is None else word + signature
        found.append(block("thinking", thinking=draw(texts), signature=kept))
    unsigned = bool(found) and found[-1].get("signature") == ""
    if draw(st.booleans()) and not unsigned:  # its signature would be the thought's
        found.append(block("redacted_thinking", data=f"gemini:{draw(opaque)}"))
    return found


@st.composite
def anthropic_results(draw: st.DrawFn, call_id: str) -> dict[str, Any]:
    pieces = draw(st.lists(anthropic_text | anthropic_media, max_size=4))
    result = block("tool_result", tool_use_id=call_id, content=without_neighbours(pieces, "text"))
    return result | ({"is_error": True} if draw(st.booleans()) else {})


@st.composite
def anthropic_conversations(draw: st.DrawFn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    pending: list[str] = []
    for turn in range(draw(st.integers(1, 4))):
        content: list[dict[str, Any]] = [draw(anthropic_results(call)) for call in pending]
        spoken = draw(st.lists(anthropic_text | anthropic_media, max_size=2))
        messages.append(
            {
                "role": "user",
                "content": content + (spoken if content else spoken or [block("text", text="go")]),
            }
        )
        answer: list[dict[str, Any]] = []
        pending = []
        for number in range(draw(st.integers(1, 3))):
            answer += draw(anthropic_thoughts())
            if draw(st.booleans()):
                answer.append(draw(anthropic_text))
                continue
            # The same id in two messages is allowed, in one it is not.
            pending.append(f"toolu_{draw(st.integers(0, 2))}_{number}")
            name, args = draw(st.sampled_from(TOOLS)), draw(arguments)
            answer.append(block("tool_use", id=pending[-1], name=name, input=args))
        messages.append({"role": "assistant", "content": answer})
        del turn
    last = [draw(anthropic_results(call)) for call in pending]
    messages.append({"role": "user", "content": last or [block("text", text="on")]})
    return {"model": "m", "max_tokens": 100, "messages": messages} | draw(anthropic_settings())


@st.composite
def anthropic_settings(draw: st.DrawFn) -> dict[str, Any]:
    choices = [
        block("auto"),
        block("any"),
        block("none"),
        *(block("tool", name=name) for name in TOOLS),
    ]
    tools = [
        {"name": name, "description": "d", "input_schema": {"type": "object"}} for name in TOOLS
    ]
    made: dict[str, Any] = {"tools": tools}
    if draw(st.booleans()):
        made["system"] = [
            block("text", text=text) for text in draw(st.lists(texts, min_size=1, max_size=2))
        ]
    if draw(st.booleans()):
        made["tool_choice"] = draw(st.sampled_from(choices))
    if draw(st.booleans()):
        made |= {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop_sequences": ["x"]}
    if draw(st.booleans()):
        made["thinking"] = draw(
            st.sampled_from(
                [block("disabled"), block("adaptive"), block("enabled", budget_tokens=2048)]
            )
        )
    return made | ({"stream": True} if draw(st.booleans()) else {})


openai_text = st.builds(lambda text: block("text", text=text), texts)
openai_media = st.one_of(
    st.builds(
        lambda data: block("image_url", image_url={"url": f"data:image/png;base64,{data}"}), pixels
    ),
    st.just(block("image_url", image_url={"url": "https://example.org/a.png"})),
    st.just(block("input_audio", input_audio={"data": "AAAA", "format": "wav"})),
    st.just(block("file", file={"file_data": "data:application/pdf;base64,JVBERi0="})),
)


def as_written(parts: list[dict[str, Any]]) -> Any:
    """One text stands as a string."""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def signed_part(signature: str) -> dict[str, Any]:
    return {"extra_content": {"google": {"thought_signature": signature}}}


@st.composite
def openai_answers(draw: st.DrawFn, turn: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | texts)}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(texts)
    if message["content"] and draw(st.booleans()):
        message |= signed_part(draw(opaque))
    calls: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0 if message["content"] else 1, 3))):
        function = {
            "name": draw(st.sampled_from(TOOLS)),
            "arguments": json.dumps(draw(arguments), separators=(",", ":"), ensure_ascii=False),
        }
        made = {"id": f"call_{turn % 2}_{number}", "type": "function", "function": function}
        calls.append(made | (signed_part(draw(opaque)) if draw(st.booleans()) else {}))
    return message | ({"tool_calls": calls} if calls else {})


@st.composite
def openai_conversations(draw: st.DrawFn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        said = draw(st.lists(openai_text, min_size=1, max_size=2))
        messages.append({"role": "system", "content": as_written(said)})
    prompts = st.lists(openai_text | openai_media, min_size=1, max_size=3)
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": as_written(draw(prompts))})
        answer = draw(openai_answers(turn))
        messages.append(answer)
        for call in answer.get("tool_calls", ()):
            pieces = draw(st.lists(openai_text | openai_media, min_size=1, max_size=3))
            content = as_written(without_neighbours(pieces, "text"))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    messages.append({"role": "user", "content": as_written(draw(prompts))})
    return {"model": "m", "messages": messages} | draw(openai_settings())


@st.composite
def openai_settings(draw: st.DrawFn) -> dict[str, Any]:
    functions = [
        {"name": name, "description": "d", "parameters": {"type": "object"}} for name in TOOLS
    ]
    made: dict[str, Any] = {"tools": [block("function", function=one) for one in functions]}
    named = [block("function", function={"name": name}) for name in TOOLS]
    allowed = block("allowed_tools", allowed_tools={"mode": "required", "tools": named[:2]})
    if draw(st.booleans()):
        made["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", *named, allowed]))
    if draw(st.booleans()):
        made |= {
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "stop": ["x"],
            "max_completion_tokens": 9,
        }
        made |= {"presence_penalty": 0.1, "frequency_penalty": 0.2}
    if draw(st.booleans()):
        schema = {"name": "answer", "schema": {"type": "object"}}
        forms = [block("json_object"), block("json_schema", json_schema=schema)]
        made["response_format"] = draw(st.sampled_from(forms))
    if draw(st.booleans()):
        made["reasoning_effort"] = draw(
            st.sampled_from(["none", "minimal", "low", "medium", "high"])
        )
    if draw(st.booleans()):
        made |= {"stream": True, "stream_options": {"include_usage": True}}
    return made


responses_media = st.one_of(
    st.builds(
        lambda mime, data: block(
            "input_image", image_url=f"data:{mime};base64,{data}", detail="auto"
        ),
        st.sampled_from(["image/png", "image/jpeg"]),
        pixels,
    ),
    st.just(block("input_image", image_url="https://example.org/a.png", detail="auto")),
    st.just(
        block(
            "input_file",
            filename="file.pdf",
            file_data="data:application/pdf;base64,JVBERi0=",
        )
    ),
)
responses_text = st.builds(lambda text: block("input_text", text=text), texts.filter(bool))


def summary(*said: str) -> list[dict[str, Any]]:
    return [block("summary_text", text=text) for text in said]


@st.composite
def reasoning_items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draws reasoning that precedes an item: the service's own, Gemini's, or none."""
    said = draw(st.lists(texts.filter(bool), max_size=1))
    kind = draw(st.sampled_from(["none", "own", "gemini:", "gemini-text:", "thought:"]))
    if kind == "none":
        return []
    if kind == "own":
        return [
            {
                **block("reasoning", id=f"rs_{number}", summary=summary(*said)),
                "encrypted_content": draw(opaque),
            }
            for number in range(draw(st.integers(1, 2)))
        ]
    return [block("reasoning", summary=summary(*said), encrypted_content=kind + draw(opaque))]


@st.composite
def responses_answers(draw: st.DrawFn, turn: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    said = draw(st.booleans())
    if said:
        items += draw(reasoning_items())
        message = block("message", role="assistant", content=draw(texts.filter(bool)))
        own = not items or items[-1].get("id")  # only its own reasoning is kept with a phase
        items.append(message | ({"phase": "commentary"} if own and draw(st.booleans()) else {}))
    for number in range(draw(st.integers(0 if said else 1, 3))):
        items += draw(reasoning_items())
        call_id = f"call_{turn % 2}_{number}"
        name = draw(st.sampled_from(TOOLS))
        if name == "a" * 80:
            items.append(block("custom_tool_call", call_id=call_id, name=name, input=draw(texts)))
            continue
        text = json.dumps(draw(arguments), separators=(",", ":"), ensure_ascii=False)
        items.append(block("function_call", call_id=call_id, name=name, arguments=text))
    return items


@st.composite
def responses_conversations(draw: st.DrawFn) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    prompts = st.lists(responses_text | responses_media, min_size=1, max_size=3)
    for turn in range(draw(st.integers(1, 4))):
        items.append(block("message", role="user", content=draw(prompts)))
        answer = draw(responses_answers(turn))
        items += answer
        for call in answer:
            if call["type"].endswith("_call"):
                output = draw(texts | st.lists(responses_media, min_size=1, max_size=2))
                kind = f"{call['type']}_output"
                items.append(block(kind, call_id=call["call_id"], output=output))
    items.append(block("message", role="user", content=draw(prompts)))
    body: dict[str, Any] = {"model": "m", "input": items, "store": False}
    body["include"] = ["reasoning.encrypted_content"]
    return body | draw(responses_settings())


@st.composite
def responses_settings(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {
        "tools": [
            block("function", name=name, description="d", parameters={"type": "object"})
            | {"strict": False}
            for name in TOOLS
            if name != "a" * 80
        ],
        "parallel_tool_calls": draw(st.booleans()),
    }
    named = [block("function", name=name) for name in TOOLS[:2]]
    allowed = block("allowed_tools", mode="required", tools=named)
    if draw(st.booleans()):
        made["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", *named, allowed]))
    if draw(st.booleans()):
        made |= {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 90}
    if draw(st.booleans()):
        form = {"name": "answer", "schema": {"type": "object"}}
        made["text"] = {
            "format": draw(st.sampled_from([block("json_object"), block("json_schema", **form)]))
        }
    if draw(st.booleans()):
        effort = draw(st.sampled_from(["minimal", "low", "medium", "high", "xhigh"]))
        made["reasoning"] = {"effort": effort, "summary": "auto"}
    if draw(st.booleans()):
        made["instructions"] = draw(texts.filter(bool))
    return made
