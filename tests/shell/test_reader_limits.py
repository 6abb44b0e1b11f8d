"""Limits: whatever is given, the reader does a bounded amount of work, and says when that was not
enough."""

import pytest

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import MAX_MARKS, Findings
from alhena.shell.parse.parser import MAX_BYTES, TooMuchError, parse
from tests.support.each import for_each

KIB = 1024


def repeat_unit(unit: str) -> str:
    return unit * (MAX_BYTES // len(unit.encode()))


ENDLESS = [
    *(
        "$(",
        "${",
        "${a:-",
        "$((",
        "((",
        "(",
        ")",
        "`",
        '"',
        '"$(',
        "'",
        ";a",
        "a|",
        "a=(",
        ">",
        "|",
    ),
    *(
        "f() ",
        "a[",
        "<(",
        "{",
        "{a,",
        "}",
        "[[ ",
        "[ ",
        "! ",
        "if ",
        "case x in ",
        "esac)",
        "@(",
        "&",
    ),
    *(
        "cat <<E\n",
        "cat <<E\nx\nE\n",
        "<<E ",
        '$(`"${',
        "`>?",
        "<!`",
        "((1+",
        "x?",
        "function f ",
        "$'",
    ),
    *(
        "\\(",
        "a;",
        "a&&",
        "if a; then ",
        "${a/",
        "${!",
        ";;",
        "else ",
        "\\\n",
        "\x01;",
        "time (",
    ),
]


@for_each("unit", ENDLESS)
def test_a_command_of_64_kib_that_is_all_operators_is_not_complete(unit: str) -> None:
    analysis = analyse(repeat_unit(unit))
    assert not analysis.complete
    assert analysis.doubts
    assert len(analysis.parts) < 1100


def test_150_kb_of_nested_substitutions_are_not_even_parsed() -> None:
    analysis = analyse("$(" * 75_000)
    assert (analysis.parts, analysis.complete) == ((), False)
    assert analysis.doubts[0].reason == "it is longer than 64 KiB"
    assert not analyse("é" * (MAX_BYTES // 2 + 1)).complete
    assert analyse("é" * (MAX_BYTES // 2)).complete


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m '" + 'fix (x) & "y"; $z | `w`\n' * 2500 + "'",
        'git commit -m "' + "fix (x) & 'y'; | w\n" * 3000 + '"',
        "a <<'E'\n" + "x = $(f) # `it's`\n" * 3000 + "E\n",
        "a <<E\n" + 'x = {f} # "it"\n' * 4000 + "E\n",
        "# " + "it's (so)\n# " * 1200 + "\na",
        "echo " + "a" * 65_000,
        "echo" + " \t" * 30_000 + "a",
        "echo " + "word " * 1500,
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_long_text_that_is_only_data_is_read_to_its_end(command: str) -> None:
    if command.startswith("# "):
        assert not analyse(command).complete
        return
    analysis = analyse(command)
    assert analysis.complete
    assert not analysis.doubts
    (part,) = analysis.parts
    fed = part.redirections[0].body if part.redirections else part.words[-1].text
    assert fed in command
    assert len(fed) > 0


def test_the_quotes_of_a_long_command_keep_what_is_in_them() -> None:
    message = "it (is) a; long & 'single' `ticked` $dollar message\n" * 400
    part = analyse('git commit -m "' + "a (b);\n" * 900 + "\" && echo 'x;y'").parts[1]
    assert [w.text for w in part.words] == ["echo", "x;y"]
    quoted = message.replace("'", "")
    assert analyse(f"a '{quoted}'").parts[0].words[1].text == quoted


def test_nesting_is_read_to_a_depth_and_no_further() -> None:
    for opening, closing in (("( ", " )"), ("{ ", "; }"), ("$(", ")"), ("if a; then ", "; fi")):
        shallow = analyse(opening * 40 + "a" + closing * 40)
        assert shallow.complete
        deep = analyse(opening * 130 + "a" + closing * 130)
        assert not deep.complete
    assert analyse(" && ".join(["a"] * 150)).complete
    assert analyse("a " + "${a:-" * 15 + "}" * 15).complete
    assert not analyse("a " + "${a:-" * 60 + "}" * 60).complete
    assert not analyse("(" + " (" * 98 + "a " + "${a:-" * 90 + "}" * 90 + ")" * 99).complete


def test_the_parser_stops_after_a_number_of_steps() -> None:
    with pytest.raises(TooMuchError, match="operators"):
        parse(b"a;" * 1000, Findings())
    with pytest.raises(TooMuchError, match="words"):
        parse(b"a " * 5000, Findings())
    with pytest.raises(TooMuchError, match="too long"):
        parse(b"((" + b"1+" * 30_000, Findings())
    findings = Findings()
    parse(b"a; " * 90, findings)
    parse(b"a; " * 90, findings)
    assert findings.marks == MAX_MARKS - 180


@for_each("character", ["\r", "\x1b", "\x07", "\x7f", "\x9b", "\u200b", "\u202e",
                                       "\u00a0", "\u2028", "\ufeff", "\ud800", "\u2066",
                                       "\u2800", "\u3164", "\u115f", "\ufe0f", "\ufe00"])  # fmt: skip
def test_a_character_that_cannot_be_seen_is_a_doubt(character: str) -> None:
    for command in (f"git{character} status", f"git 'a{character}b'", f"git status{character}"):
        reasons = [doubt.reason for doubt in analyse(command).doubts]
        assert "it contains a character that cannot be seen" in reasons
    assert not analyse("git\tstatus\n").doubts


def test_a_symbol_may_say_that_it_is_drawn_in_colour() -> None:
    assert not analyse("git commit -m 'I \u2764\ufe0f \u00e9t\u00e9'").doubts
    assert analyse("git commit -m 'I \u2764\ufe0f\ufe0f'").doubts


def test_a_nul_ends_the_reading() -> None:
    assert not analyse("git status\0").complete
    assert analyse("\0" * 60_000).parts == ()
