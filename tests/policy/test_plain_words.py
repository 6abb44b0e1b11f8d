"""`plain_words` against bash itself: what it accepts, bash reads the same way."""

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from alhena.policy.shell import plain_words

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is the oracle")

LETTERS = ["a", "bc", "x1", "git", "é", "-f", "--k=v", "a.b", "HEAD~1", "HEAD^", "@{u}"]
MARKS = [*" \t\n'\"'\"=~:#!%^*?[]{}()<>|&;$`\\/.,@+-\r\0", "  ", "\\\n", "$'", "\u00a0", "\u200b"]
COMMANDS = st.lists(st.sampled_from([*LETTERS * 3, *" " * 20, *MARKS]), max_size=9).map("".join)


def seen_by_bash(script: str) -> tuple[str, ...]:
    done = subprocess.run(
        [BASH, "-c", script], capture_output=True, check=False, env={"PATH": "/nonexistent"}
    )
    return tuple(done.stdout.decode("utf-8").split("\0")[:-1])


@needs_bash
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COMMANDS)
@example("a ''~ b")
@example("a 'x'~ b")
@example("a \"x\\.y\" '\n'")
@example("a b=~ c:~ d~ ~")
@example("a -x=~/y")
def test_bash_reads_an_accepted_command_as_exactly_these_words(command: str) -> None:
    words = plain_words(command)
    if words is None:
        return
    assert seen_by_bash(f"printf '%s\\0' {command.strip()}") == words
    if "/" not in words[0] and words[0] != ":":
        # With no program on PATH, bash hands every command it would run to this function.
        caught = 'command_not_found_handle() { printf "%s\\0" "$@"; }\n'
        assert seen_by_bash(caught + command) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status", ("git", "status")),
        ("  git\tlog  ", ("git", "log")),
        ("git commit -m 'a  b'\"c d\"e", ("git", "commit", "-m", "a  bc de")),
        ("git show HEAD~1 HEAD^ a@b 100%", ("git", "show", "HEAD~1", "HEAD^", "a@b", "100%")),
        ("echo 'two\nlines'", ("echo", "two\nlines")),
        ('grep "a\\.b" src/x.py', ("grep", "a\\.b", "src/x.py")),
        ("echo '$HOME `x` ; | & > < * ~'", ("echo", "$HOME `x` ; | & > < * ~")),
        ("ls naïve.txt", ("ls", "naïve.txt")),
        ("echo ''", ("echo", "")),
    ],
)
def test_plain_commands_are_read_as_their_words(command: str, words: tuple[str, ...]) -> None:
    assert plain_words(command) == words


REFUSED = [
    *("", " ", "''", "'' a", "#x", "a #b"),
    *("a; b", "a;b", "a & b", "a&", "a | b", "a |& b", "a && b", "a || b", "a\nb", "a\rb"),
    *("a > f", "a>f", "a >> f", "a < f", "a << E\nE", "a <<< x", "a 2>&1", "a &> f", "a <(b)"),
    *("a $(b)", "a `b`", 'a "$(b)"', 'a "`b`"', "a $b", 'a "$b"', "a ${b}", "a $((1))", "a $'b'"),
    *("a \\b", "a\\ b", "\\a", 'a "\\$b"', 'a "\\"b"', "a \\\nb", "a 'b", 'a "b', "a\\"),
    *("(a)", "{ a; }", "a {b,c}", "a *", "a ?", "a [b]", "a ~", "a ~/b", "a b=~", "! a", "a !b"),
    *("A=1 b", "A=1", "A+=1 b", "A[0]=1 b", "if a", "while a", "for a", "time a", "[[ a ]]"),
    *("env a", "bash a", "sh -c a", "sudo a", "xargs a", "eval a", "exec a", "nohup a"),
    *("timeout 5 a", "command a", "builtin a", "source a", ". a", "/usr/bin/env a", "nice a"),
    *("trap a EXIT", "alias a=b", "export a", "read a", "let a", "declare a", "printf -v a b"),
    *("test -v a", "unset a", "mapfile a", "jobs -x a", "busybox a", "'env' a", "find . -exec a +"),
    *("a\0b", "a 'b\0'", "a\u00a0b", "a 'b\u200b'", "a '\x1b[2J'", "a '\x9b'", "a '\ud800'"),
    "a " + "b" * (64 * 1024),
]


@pytest.mark.parametrize("command", REFUSED, ids=lambda text: ascii(text)[:30])
def test_nothing_else_is_a_plain_command(command: str) -> None:
    assert plain_words(command) is None


@pytest.mark.parametrize("command", [f"a {'b ' * 30_000}", "'a' " * 16_000, "a" * 64_000])
def test_long_commands_are_read_in_one_pass(command: str) -> None:
    words = plain_words(command)
    assert words is None or words == ("a" * 64_000,)
