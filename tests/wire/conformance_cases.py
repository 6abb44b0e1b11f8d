"""Conversations that break one rule each: the rule, where, and the contents."""

from alhena.wire.content import (
    SIGNATURE_SENTINEL,
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    text_content,
)
from tests.wire.histories import PNG, call, model, response, user

HI = user(Part(text="hi"))
ZIP = Blob(mime_type="application/zip", data="AAAA")
CALLED = [HI, model(call(id="1"), call("replace", id="2"))]
CASES: list[tuple[str, str, list[Content]]] = [
    ("C1", "contents", []),
    ("C3", "contents[0].parts[0]", [user(Part())]),
    ("C3", "contents[0].parts[0]", [user(Part(text=""))]),
    ("C3", "contents[0].parts[1]", [user(Part(text="a"), Part(text="a", inline_data=PNG))]),
    ("C3", "contents[0].parts[0]", [user(Part(part_metadata={"a": 1}))]),
    ("C3", "contents[1].parts[0]", [HI, model(Part(thought_signature="QUJD")), HI]),
    (
        "C3",
        "contents[2].parts[0].functionResponse.parts[0]",
        [
            HI,
            model(call()),
            user(
                Part(
                    function_response=FunctionResponse(
                        name="read_file", parts=(FunctionResponsePart(),)
                    )
                )
            ),
        ],
    ),
    ("C5", "contents[0]", [text_content("model", "a"), HI]),
    ("C5", "contents[1]", [HI, text_content("model", "a")]),
    ("C6", "contents[1]", [HI, HI]),
    ("C6", "contents[2]", [HI, text_content("model", "a"), text_content("model", "b"), HI]),
    ("F1", "contents[1]", [*CALLED, HI]),
    ("F1", "contents[1]", CALLED),
    ("F1", "contents[0]", [user(call()), user(response())]),
    ("C7", "contents[0]", [user(response())]),
    ("C7", "contents[0]", [model(call()), user(response())]),
    ("F2", "contents[0]", [user(response())]),
    ("F2", "contents[1]", [HI, user(response())]),
    ("F2", "contents[2]", [HI, model(call()), model(response()), HI]),
    ("F2", "contents[3]", [HI, model(call()), user(response()), user(response())]),
    (
        "F3",
        "contents[3]",
        [*CALLED, user(response(id="1")), user(response("replace", id="2"))],
    ),
    ("F4", "contents[2].parts[0].functionResponse.name", [HI, model(call()), user(response("x"))]),
    ("F4", "contents[1].parts[0].functionCall.name", [HI, model(call("x")), user(response("x"))]),
    ("F4", "contents[1].parts[0].functionCall.name", [HI, model(call("")), user(response(""))]),
    (
        "F5",
        "contents[1].parts[1].functionCall.id",
        [HI, model(call(id="1"), call(id="1")), user(response(id="1"), response(id="1"))],
    ),
    ("F6", "contents[2].parts[0].functionResponse.id", [HI, model(call(id="1")), user(response())]),
    ("F6", "contents[2].parts[0].functionResponse.id", [HI, model(call()), user(response(id="1"))]),
    (
        "F6",
        "contents[2].parts[0].functionResponse.id",
        [HI, model(call(id="1")), user(response(id="2"))],
    ),
    ("F7", "contents[2]", [*CALLED, user(response("replace", id="2"), response(id="1"))]),
    ("F7", "contents[2]", [HI, model(call()), user(Part(inline_data=PNG), response())]),
    (
        "F9",
        "contents[2].parts[0].functionResponse.response",
        [
            HI,
            model(call()),
            user(Part(function_response=FunctionResponse(name="read_file", response={"a": 1}))),
        ],
    ),
    (
        "F10",
        "contents[1].parts[1].functionCall",
        [*CALLED, user(response(id="1"))],
    ),
    (
        "F12",
        "contents[1].parts[0].functionCall",
        [
            HI,
            model(Part(function_call=FunctionCall(name="read_file", will_continue=True))),
            user(response()),
        ],
    ),
    (
        "F13",
        "contents[2].parts[1].inlineData.mimeType",
        [HI, model(call()), user(response(), Part(inline_data=ZIP))],
    ),
    (
        "F13",
        "contents[2].parts[0].functionResponse.parts[0].inlineData.mimeType",
        [
            HI,
            model(call()),
            user(
                Part(
                    function_response=FunctionResponse(
                        name="read_file",
                        response={"output": ""},
                        parts=(FunctionResponsePart(inline_data=ZIP),),
                    )
                )
            ),
        ],
    ),
    (
        "S4",
        "contents[1].parts[1].thoughtSignature",
        [
            HI,
            model(
                call(thought_signature=SIGNATURE_SENTINEL),
                call("replace", thought_signature=SIGNATURE_SENTINEL),
            ),
            user(response(), response("replace")),
        ],
    ),
    ("S5", "contents[1].parts[0]", [HI, model(Part(text="hm", thought=True)), HI]),
    (
        "S2",
        "contents[0].parts[0].thoughtSignature",
        [user(Part(text="a", thought_signature="QQ=="))],
    ),
    (
        "S3",
        "contents[1].parts[0].thoughtSignature",
        [HI, model(call(thought_signature="a_-b")), user(response())],
    ),
    (
        "S3",
        "contents[1].parts[0].thoughtSignature",
        [HI, model(call(thought_signature="QQ")), user(response())],
    ),
    (
        "S3",
        "contents[1].parts[0].thoughtSignature",
        [HI, model(call(thought_signature="é")), user(response())],
    ),
]
