"""Against bash itself: of a command that is certain, bash runs and writes what the parts say."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from alhena.shell.parse.analysis import analyse
from tests.shell.oracle import certain, needs_bash, run_in_bash, shows, writes

SNIPPETS = [
    *(
        "a",
        "bb",
        "c",
        "-x",
        "$(",
        ")",
        "(",
        "`",
        '"',
        "'",
        "\\",
        "\\\n",
        ";",
        "&&",
        "||",
        "|",
        "|&",
    ),
    *(
        "&",
        "\n",
        "$X",
        "A=1",
        "${X:-",
        "}",
        "{ ",
        " }",
        ">f",
        "2>&1",
        ">/dev/null",
        "<f",
        "<<<",
        "#",
    ),
    *(
        " # ",
        "! ",
        "case x in ",
        "x) ",
        "esac",
        ";;",
        "if ",
        "then ",
        "fi",
        "else ",
        "for i in ",
        "do ",
    ),
    *(
        "done",
        "true",
        "false",
        "<(",
        "$'",
        "{a,b}",
        "=",
        "[ ",
        " ]",
        "[[ ",
        " ]]",
        "*",
        "~",
        "<<E\n",
    ),
    *("<<'E'\n", "\nE\n", "<<-E\n", "E", "&>f", ">&2", "<&-", "é", "\t", "2", "{}", "%", "$", "$1"),
    *('"$X"', "'a b'", '"c d"', "time ", "$((1))", "((", "a[0]=1", "{fd}>f", ">|f", "cd x", "exit"),
    *("\\a", "a\\ b", "=~ ", "coproc ", ":", "[", "]", "${X#a}", '"`a`"', '"$(a)"', '$"x"', "\\\n"),
]
SEEDS = [
    *(
        "a b && c -x | bb",
        "if a; then bb; elif c; then a; else c; fi",
        "for i in a bb; do c $i; done",
    ),
    *("case x in a|x) bb;; *) c;; esac", "cat <<E | bb\nfoo $X\nE\nc", "a <<'E' && bb\nx\nE\n"),
    *(
        "a \"$(bb 'c')\" `c`",
        "{ a; bb; } >f",
        "(a; bb) | c",
        "! a | bb",
        "[ -f a ] && bb",
        "X=1 a; Y=2",
    ),
    *(
        "[[ $X == b* ]] || c",
        "a 2>&1 >/dev/null; bb &\nc",
        "a ${X:-$(bb)} <(c)",
        "a \\\n b | \\\n c",
    ),
    *(
        "a <<E; bb <<F\n1\nE\n2\nF\nc",
        "# foo\na # b\nbb",
        "a && { bb || c; }",
        "a $'x\\ty' \"q\\\"r\" 's'",
    ),
    *(
        "bb <<-E\n\tx\n\tE\na",
        'a "$(cat <<\'EOF\'\nm (x) "y"\nEOF\n)"',
        "a >f <f 2>>f",
        "{ a } ; }",
    ),
]


@st.composite
def mutated_lines(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 3)))
        put = draw(st.sampled_from(["", *SNIPPETS]))
        text = text[:start] + put + text[stop:]
    return text


def join_pairs(pairs: list[tuple[str, str]]) -> str:
    return "".join(text + blank for text, blank in pairs)


SCRAPS = st.lists(
    st.tuples(st.sampled_from(SNIPPETS), st.sampled_from(["", " "])), min_size=1, max_size=9
).map(join_pairs)


@needs_bash
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(mutated_lines(), SCRAPS))
@example('bb "$\\\n(a)"')
@example("<&-a")
@example("(a; b<&-b) | c")
@example("a <<E\n`bb`\nE\n")
@example("a <<E $X |\nbb\nE\nc")
@example("r\\\nm x")
@example("a &\\\n& b")
@example("{ a } ; }")
@example("a; ! { bb; } 2>f")
@example("a ${X:-<<<(bb)} <(c)")
@example("a ${X:-<<(bb)}; a ${X:->>(bb)}; a ${X:-q<(bb)}")
def test_bash_runs_only_what_the_parts_of_a_certain_command_show(command: str) -> None:
    analysis = analyse(command)
    if not certain(analysis):
        return
    ran = run_in_bash(command)
    if ran is None:
        return
    for run in ran.commands:
        assert any(shows(part, run) for part in analysis.parts), run
    assert not ran.files or writes(analysis)
