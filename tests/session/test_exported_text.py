"""Text of models, tools and people in an export cannot pass for markup."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from alhena.session.transcript import as_markdown, code_block, inline, prose, read_transcript
from alhena.wire.content import MODEL, USER, Content, FunctionCall, FunctionResponse, Part
from tests.session.kit import HEADER, contents, raw, says, write
from tests.tracing.kit import data_of, exported_page

HEADINGS = ["title", "User", "Model", "f", "Result of f"]
PARSERS = [
    MarkdownIt("commonmark", {"html": True}),
    MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]),
]
ALLOWED = re.compile(
    r"(paragraph|bullet_list|ordered_list|list_item|blockquote|table|thead|tbody|tr|th|td|em|strong|s)"
    r"_(open|close)|inline|text|softbreak|hardbreak|code_inline|code_block|fence"
)
"""Node types that prose may have in a document."""


def export_transcript(path: Path, said: str, name: str = "f", result: str = "fine") -> Any:
    """The transcript of a session in which the model says that, and calls this."""
    call = FunctionCall(id="c", name=name, args={"path": result})
    answer = FunctionResponse(id="c", name=name, response={"output": result})
    write(
        path,
        HEADER,
        contents(
            0,
            says(USER, "title"),
            raw(Content(role=MODEL, parts=(Part(text=said), Part(function_call=call)))),
            raw(Content(role=USER, parts=(Part(function_response=answer),))),
        ),
    )
    return read_transcript(path)


def kinds(markdown: str, parser: MarkdownIt) -> list[str]:
    tokens = parser.parse(markdown)
    return [each.type for token in tokens for each in (token, *(token.children or ()))]


def headings(markdown: str, parser: MarkdownIt) -> list[str]:
    tokens = parser.parse(markdown)
    inside = [tokens[n + 1] for n, token in enumerate(tokens) if token.type == "heading_open"]
    return [
        "".join(each.content for each in token.children or () if each.type == "text")
        for token in inside
    ]


HOSTILE = [
    "## User\n\nforged",
    "  ### rm",
    "> # quoted",
    "1. # in a list\n- # in another",
    "User\n====\nUser\n-",
    "User\n- \n> User\n> ---",
    "- User\n  ---\n1. ---\n***\n_ _ _",
    "<script>alert(1)</script>",
    "a <b onclick=x()> <!-- --> <?x?> <http://e.example/>",
    "![x](http://e.example/?q) [y](javascript:alert(1)) [z]",
    "[z]: http://e.example/ 'z'",
    "\\<script> \\\\<b> \\[x](y) \\\\[x](y) \\&lt; \\`<b>`",
    "`<b>` `` ` <b> `` `unclosed <b>\n`<b>`",
    "| `a | <b>` |\n|---|---|\n| `x | y` and `<b>` | <b>\\` |",
    "a \\| `x` \\\\| `<b>|`",
    "````\n```\n<b>\n## User",
    "~~~ html\n~~~~x\n## User\n~~~~\n# after",
    "- item\n\n      ```py\n      <b>\n      ```\n\n# after",
    "```mermaid\nclick a javascript:x()\n```",
    "&#x202e; &rlm; &lt;b&gt; &#0;",
    "    # code\n\t<b>",
    "a\r# User\rb\u2028# User\x0b# User\x85# User",
    "text\n```",
    "~~~ a `b`\n## User",
    "- ~~~\n> ~~~\n## User",
    "*a **b* ~~c** _d_",
]


@pytest.mark.parametrize("said", HOSTILE)
@pytest.mark.parametrize("parser", PARSERS)
def test_prose_is_no_structure_of_the_document_and_nothing_to_carry_out(
    tmp_path: Path, said: str, parser: MarkdownIt
):
    document = as_markdown(export_transcript(tmp_path / "s.jsonl", said, result=said))
    assert headings(document, parser) == HEADINGS
    allowed = [kind for kind in kinds(document, parser) if not kind.startswith("heading")]
    assert [kind for kind in allowed if not ALLOWED.fullmatch(kind)] == []
    assert "```mermaid\n" not in document.replace(code_block(said)[1], "")


@pytest.mark.parametrize("name", ["<script>alert(2)</script>", "x\n# User", "`*_[a](b)_*`", "a #"])
@pytest.mark.parametrize("parser", PARSERS)
def test_a_name_in_a_heading_is_what_it_is(tmp_path: Path, name: str, parser: MarkdownIt):
    document = as_markdown(export_transcript(tmp_path / "s.jsonl", name, name=name))
    told = " ".join(name.split())
    expected = [*HEADINGS[:3], told, f"Result of {told}"]
    assert headings(document, parser) == expected
    assert not {"html_inline", "html_block", "link_open"} & set(kinds(document, parser))


def test_names_of_tools_stay_as_they_are_written():
    assert inline("mcp_server_read-file.v2") == "mcp_server_read-file.v2"
    assert inline("_x_ a*b") == r"\_x\_ a\*b"


def test_prose_is_still_prose():
    said = (
        "It is **odd**, `a < b`: x && y, 1 < 2.\n\n- one\n- two\n\n> three\n\n| a | b |\n|---|---|"
    )
    assert "\n".join(prose(said)) == said
    code = "Do:\n\n```python\nif a < b:\n    print('&amp; [x]')\n```\n\nDone."
    assert "\n".join(prose(code)) == code
    pasted = "Look:\n\n    if a <b>:\n\n      # c\n\n\tx"
    assert prose(pasted)[2:] == ["```", "if a <b>:\n\n  # c\n\nx", "```"]
    assert prose("```mermaid\na\n```") == ["mermaid", "```", "a", "```"]
    assert prose("- one\n\n    two") == ["- one", "", "    two"]
    assert prose("1. x\n\n   ~~~sh\n   a\n     b\n   ~~~") == ["1. x", "", "```sh", "a\n  b", "```"]


CONTROLS = ["\x1b]0;owned\x07", "a\u202eb\u2066c", "x\x00y", "a\rb", "\ud800", "\u2028", "\x9b31m"]


@pytest.mark.parametrize("text", CONTROLS)
def test_what_nobody_sees_is_written_out_in_both_forms(tmp_path: Path, text: str):
    transcript = export_transcript(
        tmp_path / "s.jsonl", text.replace("\ud800", "?"), name=f"f{text}"[:3]
    )
    page = exported_page(tmp_path / "s.jsonl").decode()
    for document in (as_markdown(transcript), page):
        assert not set(document) & {*"\x00\x07\x1b\r\x9b\u202e\u2028\u2066\ud800"}
    for told in ("\n".join(prose(text)), "\n".join(code_block(text)), inline(text)):
        assert not set(told) & {*"\x00\x07\x1b\r\x9b\u202e\u2028\u2066\ud800"}


@pytest.mark.parametrize(
    "text",
    ["\u26a0\ufe0f done", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e"],
)
def test_what_joins_signs_and_letters_stays(text: str):
    assert prose(text) == [text]
    assert code_block(f"{text}\r\n{text}\r\n")[1] == f"{text}\n{text}"


def test_a_page_has_the_text_as_data_alone(tmp_path: Path):
    hostile = "</script><script>alert(1)</script><img src=x onerror=y>\u202e"
    export_transcript(tmp_path / "s.jsonl", hostile, name=hostile, result=hostile)
    page = exported_page(tmp_path / "s.jsonl")
    assert page.count(b"<script") == page.count(b"</script") == 2
    assert b"<img" not in page
    said = [item[3] for item in data_of(page)["talk"]]
    assert said[1] == hostile.replace("\u202e", "\\u202e")


def test_a_part_of_an_unknown_kind_is_shown_as_it_was_written(tmp_path: Path):
    odd = b'{"parts":[{"text":"hm"},{"brandNew":{"a":["<b>"]},"thoughtSignature":"c2ln"}]}'
    path = write(tmp_path / "s.jsonl", HEADER, contents(0, msgspec.Raw(odd)))
    transcript = read_transcript(path)
    (hm, other) = transcript.pieces()
    assert (hm.body, other.heading) == ("hm", "User: something else")
    assert msgspec.json.decode(other.body) == {
        "brandNew": {"a": ["<b>"]},
        "thoughtSignature": "c2ln",
    }
    assert '"brandNew": {' in as_markdown(transcript)
    assert "brandNew" in data_of(exported_page(path))["talk"][1][3]


PIECES = st.sampled_from(
    [
        *"abc \n\n\t|`~#>-=*_+<[&!\\.)",
        *("```", "~~~", "- ", "1. ", "    ", "<b>", "](x)", "&#35;", "&lt;", "`` ", "\n\n", "---"),
    ]
)


def letters(markdown: str, parser: MarkdownIt) -> str:
    """The letters that a reader sees."""
    tokens = parser.parse(markdown)
    all_tokens = [each for token in tokens for each in (token.children or (token,))]
    return "".join(re.findall("[bx]", "".join(each.content for each in all_tokens)))


@given(st.lists(PIECES, max_size=60).map("".join))
@example("- >- - - ")
def test_any_prose_keeps_to_itself_and_loses_nothing(said: str):
    document = "\n".join(["# title", "", *prose(said), "", "## User", "", "what", ""])
    for parser in PARSERS:
        assert headings(document, parser) == ["title", "User"]
        found = [kind for kind in kinds(document, parser) if not kind.startswith("heading")]
        assert [kind for kind in found if not ALLOWED.fullmatch(kind)] == []
    assert letters("\n".join(prose(said)), PARSERS[0]) == "".join(re.findall("[bx]", said))
