"""Templates of custom commands."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alhena.commands import (
    ArgumentsPlaceholder,
    FilePlaceholder,
    LiteralText,
    ShellPlaceholder,
    parse,
    takes_arguments,
)
from alhena.errors import InputError

PLAIN = st.text(st.characters(exclude_characters="{}!@", exclude_categories=["Cs"]), min_size=1)
PIECES = st.lists(
    st.one_of(
        PLAIN.map(lambda text: (text, LiteralText(text))),
        st.just(("{{args}}", ArgumentsPlaceholder())),
        PLAIN.map(str.strip)
        .filter(bool)
        .map(lambda each: (f"!{{ {each} }}", ShellPlaceholder(each))),
        PLAIN.map(str.strip).filter(bool).map(lambda each: (f"@{{{each}}}", FilePlaceholder(each))),
    )
)


@given(PIECES)
def test_a_template_is_parsed_into_the_pieces_it_was_written_from(
    written: list[tuple[str, object]],
) -> None:
    merged: list[object] = []
    for _, piece in written:
        last = merged[-1] if merged else None
        if isinstance(piece, LiteralText) and isinstance(last, LiteralText):
            merged[-1] = LiteralText(last.text + piece.text)
        else:
            merged.append(piece)
    assert list(parse("".join(text for text, _ in written))) == merged


@given(st.text("{}!@ args", max_size=40))
@example("!{a {b} {{args}} c}")
def test_any_template_is_parsed_or_refused_with_the_index_of_what_is_open(template: str) -> None:
    try:
        pieces = parse(template)
    except InputError as error:
        refusal = error.message
    else:
        refusal = ""
    if refusal:
        assert "Unclosed injection starting at index" in refusal
        return
    assert takes_arguments(pieces) == any(
        isinstance(each, ArgumentsPlaceholder)
        or (isinstance(each, ShellPlaceholder) and "{{args}}" in each.command)
        for each in pieces
    )
    assert sum(len(each.text) for each in pieces if isinstance(each, LiteralText)) <= len(template)


def test_braces_within_an_injection_are_balanced() -> None:
    assert parse("!{awk '{print $1}'}.") == (ShellPlaceholder("awk '{print $1}'"), LiteralText("."))
    with pytest.raises(InputError, match="index 4"):
        parse("see !{echo {a}")
