"""The conversation as checkers are told of it."""

import msgspec

from alhena.agent.context import conversation
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)


def test_turns_begin_where_the_user_speaks_and_leave_out_results_and_thoughts() -> None:
    thinking = Part(text="hm", thought=True)
    calling = Part(function_call=FunctionCall(id="1", name="glob", args={"pattern": "*"}))
    answered = Part(function_response=FunctionResponse(id="1", name="glob", response={}))
    bare = Part(function_call=FunctionCall(name="list"))
    found = conversation(
        [
            text_content(MODEL, "Before."),
            text_content(USER, "Find ", "it."),
            Content(role=MODEL, parts=(thinking, Part(text="I look."), calling)),
            Content(role=USER, parts=(answered,)),
            Content(role=MODEL, parts=(bare, Part(text="Found."))),
            text_content(USER, "Good."),
        ]
    )
    assert msgspec.to_builtins(found) == {
        "turns": (
            {"user": {"text": ""}, "model": {"text": "Before."}},
            {
                "user": {"text": "Find it."},
                "model": {
                    "text": "I look.\nFound.",
                    "toolCalls": (
                        {"name": "glob", "args": {"pattern": "*"}},
                        {"name": "list", "args": {}},
                    ),
                },
            },
            {"user": {"text": "Good."}, "model": {}},
        )
    }


def test_nothing_said_is_no_turn() -> None:
    assert conversation([]).turns == ()
