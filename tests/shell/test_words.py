"""Words as bash reads them: quotes removed, and what is not known before bash runs."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Word, WordKind
from tests.shell.oracle import certain, needs_bash, words_in_bash
from tests.support.each import for_each

LITERAL, PATTERN, EXPANSION = WordKind.LITERAL, WordKind.PATTERN, WordKind.EXPANSION


def word(text: str) -> Word:
    (part,) = [p for p in analyse(f"a {text}").parts if not p.nested]
    (_, found) = part.words
    return found


@for_each(
    ("written", "text"),
    [
        ("'a  b'", "a  b"),
        ('"a  b"', "a  b"),
        ("a\\ b", "a b"),
        ("\\r''m", "rm"),
        ("r\\\nm", "rm"),
        ('"a\\$b\\"c\\\\d\\`e\\x\\\nf"', 'a$b"c\\d`e\\xf'),
        ("'a\\b\nc'", "a\\b\nc"),
        ("''", ""),
        ("a\"b\"'c'd", "abcd"),
        ("$'a\\tb\\x41\\101\\u0042\\'\\\\'", "a\tbAAB'\\"),
        ("$", "$"),
        ("a$", "a$"),
        ('"a $ b"', "a $ b"),
        ("a=b", "a=b"),
        ("--x=y", "--x=y"),
        ("HEAD~1", "HEAD~1"),
        ("{}", "{}"),
        ("{a}", "{a}"),
        ("@{u}", "@{u}"),
        ("a[b", "a[b"),
        ("a]b", "a]b"),
        ("!x", "!x"),
        ("é'日 本'", "é日 本"),
        ("'#'a", "#a"),
        ("a,b..c", "a,b..c"),
    ],
)
def test_a_literal_word_is_what_bash_passes_on(written: str, text: str) -> None:
    found = word(written)
    assert (found.kind, found.text, found.source) == (LITERAL, text, written)
    assert not found.split


@for_each(
    ("written", "kind", "text", "split"),
    [
        ("*.py", PATTERN, "", True),
        ("src/a?b", PATTERN, "src/a", True),
        ("a[bc]d", PATTERN, "a", True),
        ("'a'[\" \"]", PATTERN, "a", True),
        ("x{a,b}y", PATTERN, "x", True),
        ("{1..3}", PATTERN, "", True),
        ("~/x", PATTERN, "", False),
        ("~", PATTERN, "", False),
        ("a=~/x", PATTERN, "a=", False),
        ("$x", EXPANSION, "", True),
        ("a$x", EXPANSION, "a", True),
        ('"a${x}b"', EXPANSION, "a", False),
        ('"$@"', EXPANSION, "", True),
        ('"${@}"', EXPANSION, "", True),
        ('"$*"', EXPANSION, "", False),
        ("${x:-b}", EXPANSION, "", True),
        ("${#x}", EXPANSION, "", True),
        ("${x%.py}", EXPANSION, "", True),
        ('"${x//a/b}"', EXPANSION, "", False),
        ("a$(b)c", EXPANSION, "a", True),
        ('"`b`"', EXPANSION, "", False),
        ("<(b)", EXPANSION, "", False),
        ("*$x", EXPANSION, "", True),
        ("$1", EXPANSION, "", True),
    ],
)
def test_of_another_word_only_its_beginning_is_known(
    written: str, kind: WordKind, text: str, split: bool
) -> None:
    found = word(written)
    assert (found.kind, found.text, found.split, found.source) == (kind, text, split, written)
    assert certain(analyse(f"a {written}"))


PIECES = st.sampled_from(
    ["a", "b1", "-", "/", ".", "=", ":", ",", "~", "{", "}", "..", "*", "?", "[", "]", "!", "%", "^",
     "#", "@", "+", "é", "'a b'", "'$x'", '"c d"', '"\\$x"', '"\\q"', "\\ ", "\\$", "\\\\", "\\\n",
     "$", "$'\\t'", "$'a\\x41'", "''", '""', "2", "$x", "${HOME}", "$(a)", '"$x"', "\\é", "$\"t\""]
)  # fmt: skip


@needs_bash
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, min_size=1, max_size=7).map("".join))
@example("a''~")
@example("''~")
@example("{a,'b'}")
@example("{a\\,b}")
@example("$\\\nx")
@example('"$\\\n(a)"')
@example("~\\\n/")
@example("a=\\\n~")
@example("{a.\\\n.b}")
def test_bash_makes_of_a_literal_word_what_is_read(written: str) -> None:
    analysis = analyse(f"a {written}")
    if not certain(analysis):
        return
    part = next(p for p in analysis.parts if not p.nested)
    seen = words_in_bash(written)
    expected = part.words[1:]
    if all(w.literal for w in expected):
        assert seen == tuple(w.text for w in expected)
    else:
        (single,) = expected
        assert all(w.startswith(single.text) for w in seen[:1])
        assert single.split or len(seen) == 1


def test_characters_outside_ascii_are_parts_of_words() -> None:
    for text, words in {
        '本["a b", x': ("本[a b,", "x"),
        "echo {\U000b9a38 本=": ("echo", "{\U000b9a38", "本="),
        "é=1 ls": ("é=1", "ls"),
    }.items():
        analysis = analyse(text)
        (part,) = analysis.parts
        assert tuple(word.text for word in part.words) == words
        assert analysis.complete
