"""Frames around memory files, which no file can forge."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.memory.files import frame_discovered, remove_frames

PIECES = [
    *("--- Newly Discovered Project Context ---", "--- End Project Context ---"),
    *("--- Context from: a ---", "--- End of Context from: a ---", "--- Full File Context ---"),
    *("</loaded_context>", "<project_context>", "</ GLOBAL_context >", "< /loaded_context"),
    *("-", "--", "-- Context from:", "\n", " ", "\t", "text", "<", "/", "_context>", "\u2028"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_holds_a_line_or_a_tag_of_a_frame(text: str):
    safe = remove_frames(text)
    assert not re.search(
        r"--[ \t]*(Newly D|End P|Context from:|End of C|Full File)", safe, re.IGNORECASE
    )
    assert not re.search(r"<\s*/?\s*(loaded|project|global)_context", safe, re.IGNORECASE)
    assert remove_frames(safe) == safe


@pytest.mark.parametrize(
    "text",
    [
        "--- a rule ---\n---\ntitle: x\n---\n",
        "Use <context_menu> and my_context --verbose; the project_context table.",
        "diff --git a/x b/x\n--- a/Context\n+++ b/Context",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str):
    assert remove_frames(text) == text


def test_the_frame_begins_and_ends_on_lines_of_its_own():
    assert frame_discovered("a\nb").split("\n") == [
        "--- Newly Discovered Project Context ---",
        "a",
        "b",
        "--- End Project Context ---",
    ]
