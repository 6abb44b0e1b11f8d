"""Of random bash, what the engine allows runs nothing else and changes nothing."""

import random
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from alhena.policy.engine import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyRule
from alhena.policy.surroundings import Surroundings
from tests.policy.jail import Jail, Ran, needs_bash
from tests.policy.support import ALLOW, SHELL, YOLO, rules, shell_rule

_ROOTED = re.compile(r"(?<!src)(?<!\.)/")

GOOD = ("good1", "good2", "sort", "find", "git", "grep")
BAD = ("bad1", "bad2")
REAL = ("env", "timeout", "nice", "nohup", "xargs", "bash", "sh", "sed", "awk", "stdbuf")

FILES: dict[str, str | Path | None] = {
    **dict.fromkeys(("a", "b.txt", "-o", "--output=x", "-exec", "-delete", "--pre=bad1"), "a b\n"),
    "src/c.py": "good1\n",
    "bad1": "",
    "sub/.git/config": "[core]\n\tfsmonitor = bad1\n",
}
SAYS = "bad1 -o out"
"""Output of every program: code when it is evaluated, an option when it is split."""

_PLAIN = ("x", "-n", "--flag", "a", "b.txt", "src/c.py", "'a b'", '"a b"', "foo:bar", "k=v", "1")
_QUOTED = ("$'x\\ty'", '"q\\"r"', "a\\ b", "''", '"it\'s"', "'bad1 x'", "\\bad1", "'$(bad1)'", "é")
_EXPANDED = ("$X", '"$X"', "${X:-y}", '"${X:-y z}"', "${X#a}", "${#X}", '"$@"', "$?", "$HOME", "~")
_GLOBS = ("*", "*.txt", "./*", "[ab]", "?", "{a,b}", "src/*", "{1..3}", "-*", "[!a]*")
_DOUBTFUL = (
    *("$((1+1))", "$[1]", "${X:=y}", "${!X}", "${X@P}", "${X[0]}", "${X:1:2}", "$((X))"),
    *("${X:-$((Y))}", '$"x"', "a[$X]", "${X[$(bad1)]}", "$(( $(bad1) ))", "${X/a/$(bad1)}"),
)
_OPTIONS = (
    *("-o out", "--output=out", "--compress-program=bad1", "-exec bad1 {} \\;", "-delete"),
    *("-c core.pager=bad1", "--pre=bad1", "-f a", "-k1", "-name a", "--", "-fprint out", "-oout"),
)
_HARMLESS_REDIRECTIONS = (
    "2>&1",
    ">/dev/null",
    "2>/dev/null",
    "<a",
    "</dev/null",
    "<<<x",
    "&>/dev/null",
)
_REDIRECTIONS = (
    *(">out", ">>a", "2>out", "&>out", "<>a", ">|a", ">&out", "{fd}>out", ">&2", "2>&-", "<&-"),
    *(
        ">$X",
        "3>out",
        "<(bad1)",
        "> >(bad1)",
        ">a*",
        "<<<$(good1)",
        "<$X",
        "<src/c.py",
    ),
)
_ASSIGNMENTS = (
    "A=1",
    "X=y",
    "PATH=.",
    "X=bad1",
    "IFS=o",
    "A+=1",
    "X=$(good1)",
    "BASH_ENV=a",
    "A[0]=1",
)
_BUILTINS = (
    *("true", "false", ":", "echo hi", "cd src", "cd ..", "cd sub", "test -f a", "[ -f a ]"),
    *(
        "[[ $X == a ]]",
        "[[ -n $X ]]",
        "pwd",
        "exit 0",
        "printf '%s' x",
        "command -v bad1",
        "type bad1",
    ),
)
_DOUBTFUL_BUILTINS = (
    *("read X <<<bad1", "printf -v X bad1", "let 1", "((1))", "declare X=bad1", "export X=bad1"),
    *(
        "test -v X",
        "[[ X -eq 1 ]]",
        "unset X",
        "set -e",
        "shift",
        "mapfile X <a",
        "alias good1=bad1",
    ),
    *("hash -p bad1 good1", "shopt -s expand_aliases", "set -- bad1", "local X", "trap bad1 EXIT"),
    *(
        "enable -n echo",
        "wait",
        "umask 0",
        "getopts a X",
        "$X",
        "$X bad1",
        "'bad1'",
        "b\\ad1",
        "b''ad1",
    ),
    *(
        "test -v 'a[$(bad1)]'",
        "read 'a[$(bad1)]' <a",
        "printf -v 'a[$(bad1)]' x",
        "unset 'a[$(bad1)]'",
    ),
    *(
        "let 'a[$(bad1)]'",
        "declare -i 'X=a[$(bad1)]'",
        "[[ 'a[$(bad1)]' -eq 1 ]]",
        "cd $X",
        "pushd src",
    ),
    *("${X:-bad1}", "$(echo bad1)", "bad*", "{bad1,x}", "./bad1", ". src/c.py", "source src/c.py"),
)
_WRAPPERS = (
    *(
        "env {}",
        "env A=1 {}",
        "env -u A -- {}",
        "timeout 5 {}",
        "timeout -s KILL 5 {}",
        "nice -n 1 {}",
    ),
    *(
        "nohup {}",
        "command {}",
        "command -- {}",
        "exec {}",
        "exec -a x {}",
        "time {}",
        "time -p {}",
    ),
    *("stdbuf -oL {}", "builtin {}", "xargs -n 1 {} <a", "xargs -I% {} % <a"),
    *("nice -n 1 env B=2 {}", "\\env {}", "'timeout' 5 {}", "e\\nv {}", "xargs {}", "coproc {}"),
)
_CODE = (
    *("bash -c {}", "sh -c {}", "eval {}", "bash -ec {} x", "trap {} EXIT", "env bash -c {}"),
    *("xargs -I% bash -c {} <a", "bash <<<{}", "sh <<'E'\n{}\nE", "echo {} | bash", "env -S {}"),
    *("sed -n '1e bad1' a", "awk 'BEGIN{{system(\"bad1\")}}'", "eval -- {}", "bash -s <<E\n{}\nE"),
)
_SCRAPS = (
    *(" ", ";", "&", "|", "\n", "\\\n", "'", '"', "`", "$(", ")", "(", "{ ", "; }", "#", " #", "$"),
    *(
        "\\",
        "<",
        ">",
        "!",
        "=",
        "[",
        "]]",
        "&&",
        "<<E\n",
        "\nE\n",
        "*",
        "~",
        "\t",
        ";;",
        "bad1",
        " bad1 ",
    ),
)


class RandomBash:
    """One line of bash; `pick` chooses a number below the given one, 0 being the simplest."""

    def __init__(self, pick: Callable[[int], int]) -> None:
        self._pick = pick
        self._size = 0

    def line(self) -> str:
        """A line, sometimes with scraps put in or cut out where nobody would expect it. It names no
        file outside the directory it runs in, except for the null device."""
        text = self._sequence(0)
        if self._one_in(8):
            text = text.replace("/dev/null", "a")
            for _ in range(1 + self._pick(3)):
                start = self._pick(len(text) + 1)
                text = text[:start] + self._of(("", *_SCRAPS)) + text[start + self._pick(3) :]
            text = _ROOTED.sub("", text)
        return text

    def _of(self, options: Sequence[str]) -> str:
        return options[self._pick(len(options))]

    def _one_in(self, number: int) -> bool:
        """Rarely true, and false in the simplest case."""
        return self._pick(number) == number - 1

    def _sequence(self, depth: int) -> str:
        text = self._pipeline(depth)
        for _ in range(self._pick(3 if depth < 3 else 1)):
            between = self._of(
                ("; ", " && ", " || ", "\n", " & ", " # c\n", " &\n", "\n\n# bad1 'x\n")
            )
            text += between + self._pipeline(depth)
        return text

    def _pipeline(self, depth: int) -> str:
        text = ("! " if self._one_in(12) else "") + self._command(depth)
        while self._one_in(4):
            text += self._of((" | ", " |& ", "|", " |\n")) + self._command(depth)
        return text

    def _command(self, depth: int) -> str:
        self._size += 1
        if depth >= 4 or self._size > 12:
            return self._of(("good1", "good2"))
        kinds = (
            *(self._simple,) * 8,
            self._builtin,
            self._builtin,
            self._compound,
            self._wrapped,
        )
        return kinds[self._pick(len(kinds))](depth)

    def _simple(self, depth: int) -> str:
        words: list[str] = []
        if self._one_in(14):
            words.append(self._of(_ASSIGNMENTS))
        if self._one_in(25):
            words.append(self._of(_HARMLESS_REDIRECTIONS))
        words.append(self._program())
        words += [self._word(depth) for _ in range(self._pick(4))]
        if self._one_in(5):
            words.append(self._of(_HARMLESS_REDIRECTIONS))
        if self._one_in(16):
            words.append(self._of(_REDIRECTIONS))
        if self._one_in(12):
            return self._document(words, depth)
        return self._of((" ", "  ", " ", " \\\n", "\t")).join(words)

    def _program(self) -> str:
        if self._one_in(16):
            return self._of(BAD)
        return self._of(("good1", "good1", "good2", *GOOD, "git status", "sort", "find ."))

    def _word(self, depth: int) -> str:
        kinds = (*(_PLAIN,) * 8, *(_QUOTED,) * 3, *(_EXPANDED,) * 2, _GLOBS, _OPTIONS)
        if self._one_in(9):
            return self._substitution(depth)
        if self._one_in(30):
            return self._of(_DOUBTFUL)
        return self._of(kinds[self._pick(len(kinds))])

    def _substitution(self, depth: int) -> str:
        inner = self._sequence(depth + 1)
        return self._of(
            ("$({})", '"$({})"', "<({})", "`{}`", "${{X:-$({})}}", '"a $({}) b"', ">({})", '"`{}`"')
        ).format(inner)

    def _document(self, words: list[str], depth: int) -> str:
        """A command with a here document; what follows comes after its last line."""
        mark = self._of(("E", "'E'", "EOF", '"E"', "\\E"))
        body = self._of(
            (
                "text",
                "$X",
                "bad1",
                "it's",
                f"$({self._sequence(depth + 1)})",
                "`bad1`",
                '"',
                "E ",
                "\\$(bad1)",
            )
        )
        dash = self._of(("", "", "-"))
        tab = self._of(("", "\t")) if dash else ""
        end = mark.strip("'\"\\")
        behind = self._of(("", "", " | good1", "; good2 x", " && bad1", " 2>&1"))
        return f"{' '.join(words)} <<{dash}{mark}{behind}\n{body}\n{tab}{end}\n:"

    def _builtin(self, depth: int) -> str:
        del depth
        return self._of(_DOUBTFUL_BUILTINS) if self._one_in(7) else self._of(_BUILTINS)

    def _compound(self, depth: int) -> str:
        one, two = self._sequence(depth + 1), self._sequence(depth + 1)
        text = self._of(
            (
                f"{{ {one}; }}",
                f"({one})",
                f"if {one}; then {two}; fi",
                f"if {one}\nthen {two}\nelse good1\nfi",
                f"for i in a b $X; do {one}; done",
                f"for i in {self._word(depth)}; do good1 $i; {one}; done",
                f"while {one}; do {two}; break; done",
                f"until {one}; do {two}; break; done",
                f"case $X in a|b) {one};; *) {two};; esac",
                f"case {self._word(depth)} in (x) {one} ;& y) {two}; esac",
                f"f() {{ {one}; }}; f",
                f"function f {{ {one}; }}\nf",
                f"good1() {{ {one}; }}; good1",
                f"select i in a; do {one}; break; done <a",
                f"for ((i=0; i<1; i++)); do {one}; done",
                f"[[ a == a ]] && {one}",
            )
        )
        if self._one_in(4):
            text += " " + self._of((*_HARMLESS_REDIRECTIONS, ">out"))
        return text

    def _wrapped(self, depth: int) -> str:
        if self._one_in(3):
            return self._of(_CODE).format(shlex.quote(self._sequence(depth + 1)))
        return self._of(_WRAPPERS).format(self._simple(depth))


PREFIXES = rules(
    shell_rule(
        "allow",
        commandPrefix=["good1", "good2", "sort", "find", "grep", "git status", "git log"],
    )
)
READ_ONLY = rules(
    shell_rule("allow", commandPrefix=["good1", "good2"]),
    shell_rule("allow", commandClass="read-only"),
)
WITHOUT_BAD = rules(shell_rule("deny", 999, commandPrefix="bad1"), YOLO)
GUARDED = {"sort", "find", "git"}
"""Programs to which an option that no rule foresaw may do harm."""

COMMANDS = st.composite(lambda draw: RandomBash(lambda n: draw(st.integers(0, n - 1))).line())()
FILES_HERE = {name.partition("/")[0] for name in FILES}
quietly = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(FILES, [*GOOD, *BAD], REAL, SAYS) as made:
        yield made


def judge_command(jail: Jail, given_rules: tuple[PolicyRule, ...], command: str) -> Decision:
    context = PolicyContext(surroundings=Surroundings(jail.work, trusted=True))
    return decide(PolicyCall(names=(SHELL,), args={"command": command}), given_rules, context)


def run_if_allowed(jail: Jail, given_rules: tuple[PolicyRule, ...], command: str) -> Ran | None:
    """Effects of a command in bash, if the rules allow it; else None."""
    allowed = "\0" not in command and judge_command(jail, given_rules, command).outcome is ALLOW
    event(f"allowed: {allowed}")
    return jail.run(command, seconds=2) if allowed else None


def check_that_only_good_ran(jail: Jail, given_rules: tuple[PolicyRule, ...], ran: Ran) -> None:
    assert ran.programs <= set(GOOD)
    assert ran.changes == ()
    for call in ran.calls:
        plain = shlex.join(call)
        if call[0] in GUARDED and plain.isprintable():
            assert judge_command(jail, given_rules, plain).outcome is ALLOW, plain


@needs_bash
@quietly
@given(COMMANDS)
@example("find -*")
@example("good1 $(good2 <(good1)) | good2 >/dev/null 2>&1 && ! good1")
def test_what_prefixes_allow_runs_only_what_they_name(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, PREFIXES, command)
    if ran is not None:
        check_that_only_good_ran(jail, PREFIXES, ran)


@needs_bash
@quietly
@given(COMMANDS)
@example("sort -- * | grep -n x ./*")
@example("cd src && git status; cd ../sub; git log")
def test_what_is_allowed_as_reading_only_reads(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, READ_ONLY, command)
    if ran is not None:
        check_that_only_good_ran(jail, READ_ONLY, ran)


@needs_bash
@quietly
@given(COMMANDS)
@example("echo $(('$(bad1)'+1))")
@example("a[ '$(bad1)' ]=1")
@example("good1 <<E\n`bad1`\nE\n")
def test_a_denied_program_does_not_run_where_all_else_is_allowed(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, WITHOUT_BAD, command)
    assert ran is None or "bad1" not in ran.programs


def test_a_fair_share_of_random_bash_is_allowed_and_a_fair_share_is_not(jail: Jail) -> None:
    dice = random.Random(7)
    lines = [RandomBash(dice.randrange).line() for _ in range(500)]
    for given_rules in (PREFIXES, READ_ONLY, WITHOUT_BAD):
        allowed = sum(judge_command(jail, given_rules, line).outcome is ALLOW for line in lines)
        assert len(lines) * 0.1 < allowed < len(lines) * 0.9


@needs_bash
def test_the_jail_sees_programs_files_and_what_does_not_end(jail: Jail) -> None:
    assert jail.run("env good1 'a b' & bash -c bad2").calls == (("bad2",), ("good1", "a b"))
    assert jail.run(": >new; rm a; : >>a; echo >b.txt").changes[-1].endswith("work/new")
    assert jail.run("good1 *").calls[0][1:] == tuple(sorted(FILES_HERE))
    assert not jail.run("until good1 && false; do :; done", seconds=0.2).ended
    assert jail.run(":").calls == ()
