"""Allow rules on shell commands are never dodged, deny rules hardly."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.policy.model import Decision
from alhena.shell.parse.analysis import analyse
from tests.policy.support import ALLOW, ASK, DENY, SHELL, YOLO, ask, rules, run, shell_rule
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S

WIDE = rules(
    shell_rule("allow", commandPrefix=["a", "b", "git", "'env'", "find", "printf", "test"]),
    shell_rule("allow", commandRegex=".*"),
    shell_rule("allow", argsPattern="."),
)
NEVER = [
    *("", " ", "''", "'' a", "#x", "a\rb", "a > f", "a>f", "a >> f", "a &> f", "a 2> f", "a <> f"),
    *("a $((1))", "a ${b:=c}", "a ${b@P}", "a ${!b}", "a ${b[1]}", "a 'b", 'a "b', "a\\"),
    *(
        "A=1 b",
        "A=1",
        "A+=1 b",
        "A[0]=1 b",
        "if a",
        "while a",
        "for a",
        "time a",
        "$a",
        "a$b",
        "~/a",
    ),
    *(
        "env a",
        "bash a",
        "sh -c a",
        "sudo a",
        "xargs a",
        "eval a",
        "exec a",
        "nohup a",
        "a*",
        "{a,b}",
    ),
    *("timeout 5 a", "command a", "builtin a", "source a", ". a", "/usr/bin/env a", "nice a"),
    *("trap a EXIT", "alias a=b", "export a", "read a", "let a", "declare a", "printf -v a b"),
    *("test -v a", "unset a", "mapfile a", "jobs -x a", "busybox a", "'env' a", "find . -exec a +"),
    *(
        "f() { a; }",
        "coproc a",
        "select x in a; do b; done",
        "((a))",
        "[[ a -eq 1 ]]",
        "%1",
        "'%1'",
    ),
    *("a\0b", "a 'b\0'", "a 'b\u200b'", "a '\x1b[2J'", "a '\x9b'", "a '\ud800'", "PATH=. a; a"),
    *("a; PATH=$PWD/bin:$PATH; a", "for PATH in a; do b; done", "a $(A=1)", "a <(b > f)", "a `$b`"),
    *("find . -delete", "find . -fprint x", "git -c core.pager=x log", "git --exec-path=. log"),
    "a " + "b" * (64 * 1024),
]
EACH_ALLOWED = [
    *("a #b", "a; b", "a & b", "a&", "a | b", "a |& b", "a && b", "a || b", "a\nb", "a < f"),
    *(
        "a << E\nE",
        "a <<< x",
        "a 2>&1",
        "a >/dev/null 2>&1",
        "a 2>/dev/null | b",
        "a <(b)",
        "a $(b)",
    ),
    *(
        "a `b`",
        'a "$(b)"',
        "a $b",
        'a "$b"',
        "a ${b}",
        "a ${b:-c}",
        "a $'b'",
        "a \\b",
        "\\a",
        "a *",
    ),
    *(
        "(a)",
        "{ a; }",
        "a {b,c}",
        "a ~/b",
        "! a",
        "if a; then b; else a; fi",
        "a \\\nb",
        "a | b 2>&1",
    ),
    *("for x in *.py; do a $x; done", "while a; do b; done", "case $x in y) a;; *) b;; esac"),
]

GIT = rules(shell_rule("allow", commandPrefix=["git", "a"]), YOLO | {"modes": ["yolo"]})
NO_RM = rules(shell_rule("deny", 999, commandPrefix="rm"), YOLO)


def test_a_prefix_ends_at_a_word() -> None:
    for command in ("git", "git status", "git\tlog -p", "'git' status", " git status\n"):
        assert run(GIT, command).outcome is ALLOW
    for command in ("gitk", "git-lfs x", "./git x", "/tmp/git x", "Git x", "x git"):
        assert run(GIT, command).outcome is ASK
    two = rules(shell_rule("allow", commandPrefix="git status "))
    assert run(two, "git status").outcome is ALLOW
    assert run(two, "git status -s").outcome is ALLOW
    assert run(two, "git statusx").outcome is ASK
    assert run(two, "git -C / status").outcome is ASK


@for_each("command", NEVER)
def test_what_is_not_known_for_certain_is_never_allowed_by_a_condition(command: str) -> None:
    assert run(WIDE, command).outcome is ASK


@pytest.mark.requirement("POL-09")
@for_each("command", EACH_ALLOWED)
def test_a_compound_of_allowed_parts_is_allowed(command: str) -> None:
    only = rules(shell_rule("allow", commandPrefix=["a", "b"]))
    assert run(only, command).outcome is ALLOW
    less = rules(shell_rule("allow", commandPrefix="a"))
    assert (run(less, command).outcome is ALLOW) is ("b" not in words_run(command))


def words_run(command: str) -> set[str]:
    return {part.words[0].text for part in analyse(command).parts}


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="git a\\'\"$`;&|<>(){}*?[]~#!=\n\r\t\0-/é\u00a0", max_size=14))
def test_no_operator_behind_an_allowed_prefix_is_ever_allowed(tail: str) -> None:
    command = f"git status {tail}"
    decision = run(GIT, command)
    if decision.outcome is ALLOW:
        assert decision.rule is GIT[0]
        assert words_run(command) <= {"git", "a", "true", "false", ":"}
        assert "\0" not in command


@pytest.mark.parametrize(
    ("command", "part", "clause"),
    [
        (
            "git status > f",
            "git status > f",
            "> f writes, and the rule does not say allowRedirection",
        ),
        ("git status | sh", "sh", "no rule matches"),
        ("A=1 git status", "A=1 git status", "A=1 comes before it, which the rule does not name"),
        ("git status; x=1", "x=1", "no rule matches"),
        ("env git status", "env git status", "run by another program"),
        ("git -c alias.x=!y x", "git -c alias.x=!y x", "-c"),
        ("git log $((1))", "git log $((1))", "arithmetic"),
        ("a $(rm x)", "rm x", "no rule matches"),
    ],
)
def test_an_allow_that_does_not_stand_says_why_and_shows_the_part(
    command: str, part: str, clause: str
) -> None:
    decision = run(GIT, command)
    assert decision.outcome is ASK
    assert clause in decision.reason
    assert decision.parts == (part,)


@pytest.mark.parametrize(
    ("command", "clause"),
    [
        ("ls > x", "not read-only: > x writes"),
        ("find . -delete", "not read-only: -delete deletes files"),
        ("ls; npm test", "not read-only: npm "),
        ("sort -uo a b", "may apply to this command, written in another way"),
        ("xargs -I{} sort {}", "may apply to this command, which is only known when it runs"),
        (
            "python3 -c 'f(x)'; sort ${x",
            "may apply to this command, which cannot be read to its end",
        ),
    ],
)
def test_a_question_says_what_keeps_a_command_from_a_read_only_or_deny_rule(
    command: str, clause: str
) -> None:
    given_rules = rules(
        shell_rule("allow", commandClass="read-only"),
        shell_rule("deny", 300, commandPrefix="sort -o"),
        shell_rule("ask_user", 10),
    )
    decision = run(given_rules, command)
    assert decision.outcome is ASK
    assert clause in decision.reason


def test_the_strictest_part_decides_a_compound() -> None:
    mixed = rules(
        shell_rule("allow", 300, commandPrefix="git"),
        shell_rule("deny", 200, commandPrefix="rm"),
        shell_rule("deny", 100),
    )
    assert run(mixed, "git status").outcome is ALLOW
    decision = run(mixed, "git status; rm x")
    assert (decision.outcome, decision.parts) == (DENY, ("rm x",))
    assert run(mixed, "git status; ls").outcome is DENY
    assert run(mixed, "git status; git log").outcome is ALLOW


DODGES = [
    *("rm x", "rm", "\\rm x", "r''m x", "'rm' x", '"rm" x', "/bin/rm x", "../bin/rm x", "r\\\nm x"),
    *("ls; rm x", "ls && rm x", "ls | rm x", "ls & rm x", "ls\nrm x", "ls |& rm x", "! rm x"),
    *("(rm x)", "{ rm x; }", "if true; then rm x; fi", "while rm x; do :; done", "f() { rm x; }"),
    *("function f { rm x; }", "for i in a; do rm $i; done", "coproc rm x", "time -p rm x"),
    *("echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "cat <(rm x)", "x=$(rm x)"),
    *("echo ${a:-$(rm x)}", "echo $((1 + $(rm x)))", "a[$(rm x)]=1"),
    *("A=1 rm x", "A=1 B='2 3' rm x", ">f rm x", "2>/dev/null rm x", "<f rm x", "&>f rm x"),
    *(
        "env rm x",
        "env -i A=1 rm x",
        "env -u A rm x",
        "env -S 'rm x'",
        "env -S rm\r x",
        "/usr/bin/env rm x",
    ),
    *("sudo rm x", "sudo -u bob rm x", "sudo --user bob rm x", "sudo -n -- rm x", "doas rm x"),
    *("nohup rm x &", "nice -n 5 rm x", "timeout -s KILL 5 rm x", "setsid rm x", "stdbuf -oL rm x"),
    *("command rm x", "builtin command rm x", "exec rm x", "exec -a ls rm x", "busybox rm x"),
    *("xargs rm", "ls | xargs -0 -n 1 rm -f", "find . -exec rm {} \\;", "find . -execdir rm {} +"),
    *("bash -c 'rm x'", 'sh -c "rm x"', "bash -xec 'ls; rm x'", "eval rm x", "eval 'r''m x'"),
    *("sudo env A=1 bash -c 'nice rm x'", "xargs -I{} sh -c 'rm {}'", "trap 'rm x' EXIT"),
    *(
        "ls # it's\nrm x",
        "cat <<E\nhi\nE\nrm x",
    ),
    *("case x in x) rm x;; esac", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "unshare -r rm x"),
]
UNCERTAIN = [
    'echo "${a:-`rm x`}"',
    *("test -v 'a[$(rm x)]'", "[[ 'a[$(rm)]' -eq 1 ]]", "x='a[$(rm x)]'; echo $((x))"),
    *("$X x", "${X} x", "$(echo r)m x", "{rm,x}", "/bin/r? x", "r[m] x", "$'\\x72m' x", "$X$Y"),
    *("a=rm; $a x", "echo rm x | bash", "bash", "bash <<< 'rm x'", "sh < f", ". ./f", "source f"),
    *("alias ls=rm", "hash -p /bin/rm ls", 'eval "$X"', 'bash -c "$X"', "echo x | xargs $X"),
    *("python3 -c \"import os; os.system('rm x')\"", "perl -e 'system(qw(rm x))'", "ssh h 'rm x'"),
    *("awk 'BEGIN { system(\"rm x\") }'", "watch 'rm x'", "git -c alias.x='!rm y' x"),
    *("echo 'x", 'echo "x', "echo $(x", "`echo \\`x\\``", "rm\0", "x" * 70_000, "a;" * 500),
    *("cat <<E\nit's\nE\nrm x", "$(" * 200 + "rm x"),
]
HARMLESS = [
    *("ls", "ls *.py", "ls $HOME", "echo rm", "echo 'rm x'", "git commit -m 'rm x'", "rmdir x"),
    *("cat f | grep rm | wc -l", "make clean && make", "python3 script.py rm_me", "command -v rm"),
    *("sudo apt-get install git", "bash build.sh", "find . -name '*.rm'", "FOO=rm ls", "xargs ls"),
    *("env", "ls | xargs", "ls | xargs /bin/cat", "ls | xargs -I{} cp {} rm", "env | sort"),
]


@for_each("command", DODGES)
def test_a_denied_prefix_is_found_however_it_is_written(command: str) -> None:
    assert run(NO_RM, command).outcome is DENY


@for_each("command", UNCERTAIN)
def test_where_a_denied_command_may_hide_nothing_is_allowed(command: str) -> None:
    assert run(NO_RM, command).outcome in {ASK, DENY}


@for_each("command", HARMLESS)
def test_a_denied_prefix_leaves_other_commands_alone(command: str) -> None:
    assert run(NO_RM, command).outcome is ALLOW


ENDLESS = [
    *("$(" * 30_000, "`" * 60_000, '"' * 60_000, ";a" * 30_000, "${" * 30_000, "a " * 30_000),
    *("`" + "\\a" * 30_000, "'a' " * 16_000, "env " * 16_000, "find " + "-exec " * 10_000),
    *(
        "bash -c '" + "bash -c x;" * 5_000 + "'",
        "python -c '" + "x y " * 15_000 + "'",
        "(" * 64_000,
    ),
]


@for_each("command", ENDLESS)
def test_a_command_too_long_to_read_to_its_end_is_asked_about(command: str) -> None:
    assert run(NO_RM, command).outcome is ASK


def test_global_options_do_not_hide_a_denied_subcommand() -> None:
    no_push = rules(shell_rule("deny", 999, commandPrefix=["git push", "rm -rf"]), YOLO)
    assert run(no_push, "git push -f").outcome is DENY
    for command in (
        "git -C . push",
        "git --no-pager -c a=b push",
        "rm -f -r x",
        "rm x -r -f",
        "rm --recursive --force x",
    ):
        assert run(no_push, command).outcome is DENY
    for command in ("git $X push", "git p*", "xargs git"):
        assert run(no_push, command).outcome is ASK
    assert run(no_push, "git -C . status").outcome is ALLOW
    assert run(no_push, "rm -f x").outcome is ALLOW


def test_a_denied_regex_is_tried_on_every_part() -> None:
    no_curl = rules(
        shell_rule("deny", 999, commandRegex="^(curl|wget) "),
        shell_rule("deny", 998, argsPattern='"command":"nc '),
        YOLO,
    )
    for command in ("curl x", "ls; curl x", "cu''rl x", "sudo wget x", "nc x", "ls | nc x 1"):
        assert run(no_curl, command).outcome is DENY
    for command in ("/usr/bin/curl x", "./nc x", "CURL x", "env /bin/nc x"):
        assert run(no_curl, command).outcome is DENY
    assert run(no_curl, "$X y").outcome is ASK
    assert run(no_curl, "ls *.py; curlew x").outcome is ALLOW


def test_a_denied_regex_reaches_behind_options_before_a_subcommand() -> None:
    for condition in ({"commandRegex": "git push"}, {"argsPattern": '"command":"git push'}):
        no_push = rules(shell_rule("deny", 999, **condition), YOLO)
        for command in (
            "git -C . push",
            "git -c a=b push -f",
            "/bin/git --no-pager push",
            "git.exe push",
        ):
            assert run(no_push, command).outcome is DENY
        for command in (
            "git -C . status",
            "git -C push status",
            "git log push",
            "git commit -m 'git push'",
        ):
            assert run(no_push, command).outcome is ALLOW


def test_yolo_allows_any_command_and_a_narrower_allow_does_not_take_that_back() -> None:
    for command in ("a | b > c", "bash -c 'x'", "$X", "", "\0", "git status && ls"):
        assert ask(GIT, SHELL, {"command": command}, mode="yolo").outcome is ALLOW


@pytest.mark.requirement("POL-09")
def test_an_allow_without_redirection_does_not_reach_what_writes() -> None:
    any_shell = rules(shell_rule("allow"))
    for command in ("make test", "sudo make", "env CI make", "a | b; c", "a $(b)", "a 2>/dev/null"):
        assert run(any_shell, command).outcome is ALLOW
    for command in ("a > f", "a | b >> c", "bash -c 'a > f'", "{ a; } > f", "a $(b > f)", "a 'b"):
        decision = run(any_shell, command)
        assert decision.outcome is ASK
        assert "allowRedirection" in decision.reason or "cannot be read" in decision.reason


def test_arguments_that_hold_no_command_are_never_allowed_by_a_condition() -> None:
    wide = rules(shell_rule("allow", argsPattern="."), shell_rule("allow", 99, commandRegex=".*"))
    for args in ({}, {"command": None}, {"command": ["ls"]}, {"command": {"a": "ls"}}):
        assert ask(wide, SHELL, args).outcome is ASK
        assert ask(NO_RM, SHELL, args).outcome is ASK


def test_what_is_said_beside_the_command_does_not_allow_it() -> None:
    status = rules(shell_rule("allow", argsPattern="git status"))
    assert ask(status, SHELL, {"command": "git status"}).outcome is ALLOW
    for extra in ("description", "note", "z"):
        args = {"command": "rm x", extra: "git status"}
        assert ask(status, SHELL, args).outcome is ASK
        assert (
            ask(status, SHELL, {"command": "rm x", extra: {"command": "git status"}}).outcome is ASK
        )


BASH = shutil.which("bash") or ""
SNIPPETS = st.sampled_from(
    ["forbidden", "x", "echo", "env", "eval", "command", "exec", "if", "then", "fi", "{", "}", "do",
     "$(", ")", "(", "`", '"', "'", "\\", ";", "&&", "||", "|", "\n", "$X", "A=1", "${X:-", ">f",
     "<<<", "#", "!", "case", "in", "esac", ";;", "for", "done", "true", "<(", "$'", "{a,b}",
     "bash -c", "X=forbidden", "=", "[", "[[", "]]", "forbid", "den", "*"]
)  # fmt: skip


@pytest.mark.skipif(not BASH, reason="bash is the oracle")
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(SNIPPETS, st.sampled_from([" ", "", " "])), min_size=1, max_size=9))
def test_bash_never_runs_a_denied_program_from_a_command_that_was_allowed(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str]]
) -> None:
    command = "".join(text + blank for text, blank in parts)
    decision: Decision = run(
        rules(shell_rule("deny", 999, commandPrefix="forbidden"), YOLO), command
    )
    if decision.outcome is not ALLOW or "forbid" not in command:
        return
    folder = tmp_path_factory.mktemp("jail")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "forbidden").write_text(f"#!{BASH}\n: > '{folder}/ran'\n", encoding="utf-8")
    (programs / "forbidden").chmod(0o755)
    for name in ("env", "bash"):
        (programs / name).symlink_to(shutil.which(name) or "")
    work: Path = folder / "work"
    work.mkdir()
    subprocess.run(
        [BASH, "-c", command],
        env={"PATH": str(programs)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert not os.path.exists(folder / "ran")
