"""The parts of a command line: which commands, with which words, in which surroundings."""

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Part, WordKind
from tests.support.each import for_each


def words(command: str) -> list[list[str]]:
    """Every part's words; `…` comes after what is not known to its end."""
    return [
        [w.text if w.literal else f"{w.text}…" for w in part.words]
        for part in analyse(command).parts
    ]


def sure(command: str) -> bool:
    analysis = analyse(command)
    return analysis.complete and not analysis.doubts


def only(command: str) -> Part:
    (part,) = analyse(command).parts
    return part


@for_each(("command", "expected"), [
        ("git status", [["git", "status"]]),
        ("  git\tlog -p  \n", [["git", "log", "-p"]]),
        ("a; b & c && d || e | f |& g\nh", [[c] for c in "abcdefgh"]),
        ("a \\\n  b |\\\n c &&\\\n d", [["a", "b"], ["c"], ["d"]]),
        ("! a | b", [["a"], ["b"]]),
        ("(a; b) && { c; d; }", [["a"], ["b"], ["c"], ["d"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("while a; do b; done; until c\ndo d\ndone", [["a"], ["b"], ["c"], ["d"]]),
        ("for i in x *.py $y\ndo c $i; done", [["c", "…"]]),
        ("for i; do c; done", [["c"]]),
        ("case $x in a|'b c') d;; (*) e ;& f?) g;; esac", [["d"], ["e"], ["g"]]),
        ("[ -f x ] && [[ $a == b* || ! -d c ]]", [["[", "-f", "x", "]"],
         ["[[", "…", "==", "b…", "||", "!", "-d", "c", "]]"]]),
        ("a # b; c\nd", [["a"], ["d"]]),
        ("# only this", []),
        ("a'#'b '#c' \\#d", [["a#b", "#c", "#d"]]),
        ("echo if then { } fi ! done", [["echo", "if", "then", "{", "}", "fi", "!", "done"]]),
        ("set -euo pipefail; a", [["set", "-euo", "pipefail"], ["a"]]),
        ("cd x && git -C y log", [["cd", "x"], ["git", "-C", "y", "log"]]),
        ("ls naïve '日本'", [["ls", "naïve", "日本"]]),
        ("", []),
        ("\n\n", []),
    ])  # fmt: skip
def test_a_line_is_read_as_the_commands_bash_would_run(
    command: str, expected: list[list[str]]
) -> None:
    assert words(command) == expected
    assert sure(command)


@for_each(
    "command",
    [
        *("echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "a `rm x`"', "cat <(rm x)"),
        *("a >(rm x)", "x=$(rm x)", "A=$(rm x) a", "echo ${a:-$(rm x)}", 'echo "${a:+`rm x`}"'),
        *("echo $((1 + $(rm x)))", "a[$(rm x)]=1", "a=(1 $(rm x))", "echo ${a[$(rm x)]}"),
        *("f() { rm x; }", "function f { rm x; }", "coproc rm x", "coproc { rm x; }"),
        *("time { rm x; }", "! { rm x; }", "select i in a; do rm x; done", "{ rm x; } 2>f"),
        *("for ((i=0; i<$(rm x); i++)); do a; done", "for i in $(rm x); do a; done"),
        *("case $(rm x) in a) ;; esac", "case a in $(rm x)) ;; esac", "case a in a) rm x;; esac"),
        *("cat <<E\n$(rm x)\nE", 'cat <<E\n"`rm x`"\nE', "cat <<<$(rm x)", "a >$(rm x)"),
        *("test -v 'a' $(rm x)", "[[ a -eq $(rm x) ]]", "((a = $(rm x)))", "echo $[$(rm x)]"),
        *("cat <<E | rm x\nb\nE", "cat <<E && rm x\nb\nE", "cat <<E; rm x\nb\nE\n", "(rm x"),
        *("if a; rm x", "a && && rm x", "a; ) rm x", "rm x 'b", 'rm x "b', "time (rm x)"),
        *('echo "$(rm x', "echo `rm x", "echo ${x:-$(rm x)", "a\0b", "while rm x"),
    ],
)
def test_what_bash_might_run_is_a_part_or_the_reading_is_not_complete(command: str) -> None:
    analysis = analyse(command)
    shown = [w.text for part in analysis.parts for w in part.words]
    assert "rm" in shown or not analysis.complete
    if "\0" not in command:
        assert "rm" in shown


def test_a_part_knows_what_is_around_it() -> None:
    first, second, third = analyse("a | (b; c)").parts
    assert [p.stdin_piped for p in (first, second, third)] == [False, True, True]
    outer, inner = analyse("a | b $(c)").parts[1:]
    assert (outer.nested, outer.stdin_piped) == (False, True)
    assert (inner.nested, inner.stdin_piped) == (True, True)
    assert [p.stdin_piped for p in analyse("a >(b) <(c)").parts] == [False, True, False]
    assert only("  A=1 git  'st' 2>&1 ").text == "A=1 git  'st' 2>&1"


def test_redirections_of_a_compound_reach_every_part_in_it() -> None:
    for command in ("{ a; b; } >f", "(a; b) >f", "if a; then b; fi >f", "for i in 1; do a; b; done >f",
                    "while a; do b; done >f", "case x in x) a; b;; esac >f", "{ { a; b; }; } >f"):  # fmt: skip
        parts = analyse(command).parts
        assert [[r.source for r in part.redirections] for part in parts] == [[">f"], [">f"]]
    parts = analyse("a | b >f && c").parts
    assert [[r.source for r in part.redirections] for part in parts] == [[], [">f"], []]


def test_assignments_stand_before_the_command_or_alone() -> None:
    part = only("A=1 B='2 3' c D=4")
    assert [(a.name, a.value.text, a.source) for a in part.assignments] == [
        ("A", "1", "A=1"),
        ("B", "2 3", "B='2 3'"),
    ]
    assert [w.text for w in part.words] == ["c", "D=4"]
    alone = only("A= B+=x")
    assert ([a.name for a in alone.assignments], alone.words) == (["A", "B"], ())
    assert only("A=$x b").assignments[0].value.kind is WordKind.EXPANSION
    assert only("'A'=1 b").assignments == ()


@for_each(
    ("command", "expected"),
    [
        ("cd x; ls; cd y && ls", [[], ["x"], ["x"], ["x", "y"]]),
        ("cd; ls", [[], ["~"]]),
        ("(cd x; ls); ls", [[], ["x"], []]),
        ("{ cd x; }; ls", [[], ["x"]]),
        ("cd x | a; ls", [[], [], []]),
        ("cd x & ls", [[], []]),
        ("cd -P -- $x; ls", [[], ["$x"]]),
        ("command cd x; ls", [[], ["x"]]),
        ("pushd x; ls; popd; ls", [[], ["x"], ["x"], ["x", "$DIRSTACK"]]),
        ("if a; then cd x; fi; ls", [[], [], ["x"]]),
        ("cd x; a $(b)", [[], ["x"], ["x"]]),
        ("a $(cd x; b); c", [[], [], [], ["x"]]),
    ],
)
def test_directories_are_those_entered_before_in_the_same_shell(
    command: str, expected: list[list[str]]
) -> None:
    found = [[d.source for d in part.directories] for part in analyse(command).parts]
    assert found == expected


def test_a_loop_that_changes_the_directory_is_a_doubt() -> None:
    assert not sure("for i in 1 2; do cd ..; done")
    assert not sure("while a; do cd x; done")
    assert sure("for i in 1 2; do (cd x && a); done")
    assert sure("cd x; for i in 1 2; do a; done")
