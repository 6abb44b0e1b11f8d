"""Redirections and here documents: what they do, and where the words around them end."""

import pytest

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Effect, Redirection, WordKind
from tests.shell.oracle import certain, needs_bash, run_in_bash
from tests.support.each import for_each

NONE, READ, WRITE = Effect.NONE, Effect.READ, Effect.WRITE


def redirections(command: str) -> tuple[Redirection, ...]:
    return analyse(command).parts[0].redirections


@for_each(("written", "operator", "effect"), [
        *((text, ">", NONE) for text in (">/dev/null", "2>/dev/null", "> '/dev/null'", ">/dev/stderr")),
        *((text, ">&", NONE) for text in ("2>&1", ">&2", "2>& 1", "3>&1-")),
        *((text, "<&", NONE) for text in ("<&0", "3<&0", "3<&1-")),
        *((">&-", ">&-", NONE), ("2>&-", ">&-", NONE), ("<&-", "<&-", NONE)),
        *((">>/dev/null", ">>", NONE), ("&>/dev/null", "&>", NONE), ("&>>/dev/null", "&>>", NONE)),
        *((">|/dev/null", ">|", NONE), (">&/dev/null", ">&", NONE), ("<<<x", "<<<", NONE)),
        *((text, "<", READ) for text in ("<f", "0<f", "< 'a b'", "<a/$f", "<~/f")),
        *((text, "<", READ) for text in ("<*.txt", "<a/$(b)")),
        *((text, ">", WRITE) for text in (">f", "2>f", ">$f", ">~/f", ">/dev/null/x", ">/dev/tcp/a/1")),
        *((text, "<", WRITE) for text in ("</dev/tcp/a/1", "</dev/udp/a/1", "<$(a)", "<$f", '<"${f}"', "</dev/$x")),
        *((">>f", ">>", WRITE), (">|f", ">|", WRITE), ("&>f", "&>", WRITE), ("&>>f", "&>>", WRITE)),
        *((">&f", ">&", WRITE), (">&$x", ">&", WRITE), ("2>&f", ">&", WRITE)),
        *(("2>&/dev/null", ">&", WRITE), ("&>1", "&>", WRITE), ("<&$x", "<&", WRITE)),
    ])  # fmt: skip
def test_a_redirection_says_what_it_does(written: str, operator: str, effect: Effect) -> None:
    for command in (f"a b {written}", f"{written} a b", f"a {written} b"):
        (found,) = redirections(command)
        assert (found.operator, found.effect, found.source) == (operator, effect, written)
        assert [w.text for w in analyse(command).parts[0].words] == ["a", "b"]


def test_digits_are_a_descriptor_only_where_they_touch_the_operator() -> None:
    for command, words in (("a 2>f", ["a"]), ("a 2 >f", ["a", "2"]), ("a b2>f", ["a", "b2"])):
        part = analyse(command).parts[0]
        assert [w.text for w in part.words] == words
        assert part.redirections[0].effect is WRITE
    assert not certain(analyse("a {fd}>f"))
    assert not certain(analyse("a <>f"))


def test_a_variable_is_a_path_when_a_loop_gives_it_paths() -> None:
    def effects(command: str) -> list[Effect]:
        assert certain(analyse(command))
        return [r.effect for part in analyse(command).parts for r in part.redirections]

    assert effects('for f in *.py a; do a <"$f"; b <${f}; c <$g; done; d <$f') == [
        READ,
        READ,
        WRITE,
        WRITE,
    ]
    assert effects("for f in a; do for f in $x; do a <$f; done; b <$f; done") == [WRITE, READ]
    for values in ("/dev/tcp/x/80", "$(a)", "{/dev/tcp/x/80,}", "/dev/tcp/$(a).x/80"):
        assert effects(f'for f in {values}; do wc -l <"$f"; done')[-1:] == [WRITE]


BODY = "x $y\n"


@for_each(
    ("command", "words", "bodies"),
    [
        (f"a <<E\n{BODY}E", [["a"]], [BODY]),
        (f"a <<'E' b\n{BODY}E\nc", [["a", "b"], ["c"]], [BODY]),
        (f"a <<E | b && c >f\n{BODY}E\nd", [["a"], ["b"], ["c"], ["d"]], [BODY]),
        ("a <<E <<'F' b\n1\nE\n2\nF\nc", [["a", "b"], ["c"]], ["1\n", "2\n"]),
        ("a <<-E\n\t\tx\n\tE\nb", [["a"], ["b"]], ["x\n"]),
        ("(a <<E; b)\nx\nE\nc", [["a"], ["b"], ["c"]], ["x\n"]),
        ("a <<E; b <<F\n1\nE\n2\nF\nc", [["a"], ["b"], ["c"]], ["1\n"]),
        ("a <<'E'\nit's `x` $(y) \"\nE\nb", [["a"], ["b"]], ["it's `x` $(y) \"\n"]),
        ("a <<E\nEE\n E\nE \nE", [["a"]], ["EE\n E\nE \n"]),
        ('b "$(a <<\'E\'\nx) y"\nE\n)" c', [["b", "", "c"], ["a"]], []),
        ("while a; do b; done <<E\nx\nE\n", [["a"], ["b"]], ["x\n"]),
        ("a <<E\nE\n", [["a"]], [""]),
    ],
)
def test_a_here_document_is_set_apart_from_the_commands(
    command: str, words: list[list[str]], bodies: list[str]
) -> None:
    analysis = analyse(command)
    assert certain(analysis)
    assert [[w.text for w in part.words] for part in analysis.parts] == words
    assert [r.body for r in analysis.parts[0].redirections] == bodies


def test_what_runs_in_a_here_document_is_a_part() -> None:
    analysis = analyse('a <<E\n"it\'s $(b "c") `d` ${x:-$(e)} \\$(f)"\nE\n')
    assert certain(analysis)
    assert [[w.text for w in part.words] for part in analysis.parts] == [
        ["a"],
        ["b", "c"],
        ["d"],
        ["e"],
    ]
    fed = analysis.parts[0].redirections[0].target
    assert fed is not None
    assert (fed.kind, fed.text) == (WordKind.EXPANSION, "\"it's ")
    assert all(part.nested for part in analysis.parts[1:])
    literal = analyse("a <<E\n\\$x \\\\ \\q\nE\n").parts[0].redirections[0].target
    assert literal is not None
    assert (literal.kind, literal.text) == (WordKind.LITERAL, "$x \\ \\q\n")


@for_each(
    "command",
    [
        *("a <<E\nx", "a <<E", "a <<E\nx\\\nE\nb", "a <<$x\ny\n$x\n", "echo $((1<<E\n2\nE\n))"),
        *("b $(a <<E\nE) c\nE\n)", "b $(a <<E)\nx\nE\n", "`a <<E\nx\nE\n`", "a[1<<E]=2\n]=2\nE"),
        *("a <<E $(b\nc)\nx\nE\n", "a <<''\nx\n\n", 'a <<"$(b)"\nx\n$(b)\n', "a <<E\n$((1))\nE\n"),
    ],
)
def test_a_here_document_that_bash_may_end_elsewhere_is_a_doubt(command: str) -> None:
    assert not certain(analyse(command))


@needs_bash
@pytest.mark.parametrize(
    "command", ["a <<E b\nc\nE\nd", "a <<-'E'\n\tb\n\tE\nc", "(a <<E)\nb\nE\nc"]
)
def test_bash_runs_nothing_of_a_body(command: str) -> None:
    ran = run_in_bash(command)
    assert ran is not None
    parts = [tuple(w.text for w in part.words) for part in analyse(command).parts]
    assert list(ran.commands) == sorted(parts)
