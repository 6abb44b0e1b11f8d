"""Scripts of sed and awk under allow rules: the ordinary ones run, others ask; real programs judge."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.policy.support import ALLOW, ASK, rules, run, shell_rule
from tests.support.each import for_each

RULES = {
    "prefix": rules(shell_rule("allow", commandPrefix=["awk", "gawk", "mawk", "original-awk", "sed", "sed -i", "sed -i ''"])),
    "regex": rules(shell_rule("allow", commandRegex="(awk|gawk|mawk|original-awk|sed( -i( '')?)?) ")),
    "pattern": rules(shell_rule("allow", argsPattern='"command":"(awk|gawk|mawk|original-awk|sed( -i( \'\')?)?) ')),
}  # fmt: skip

AWK_RUNS = [
    *("1", "{print $1}", "NR>1 && $3 > 100 {print $1, $NF}", "{ print ($1 + $2) / 2 }", "{ x = y / 2; print (x) / 3 }"),
    *("{ for (i = 1; i <= NF; i++) print $i }", "BEGIN { while (i < 3) { i++; print i } }", "{ do i--; while (i > 0) }"),
    *("function max(a, b) { return a > b ? a : b }\n{ print max($1, $2) }", "{ total[$1] += $2 } END { for (k in total) print k }"),
    *("/start/ { getline; print }", "{ while ((getline line) > 0) n++ }", "# a comment: it's fine\n{ print } # too", "{ m = $1 > m ? $1 : m }"),
    *('{ gsub(/"/, "\\""); print tolower($0) }', "{ if (/a/ && !/b/) { print; next } else exit 1 }", "BEGIN { N = 3; print 2 ^ N; fflush() }"),
    *('{ printf "%s|%s>\\n", $1, $2 }', "BEGIN { srand(1); print int(rand() * 10) }", "{ delete seen[$1]; print length($0) }"),
]  # fmt: skip
AWK_ASKS = [
    *('BEGIN { system("x") }', '{ print > "f" }', '{ print a,\n b > "f" }', '{ print a &&\n b > "f" }', '{ print a ||\n b > "f" }'),
    *('{ print a, # c\n b >> "f" }', '{ print a \\\n > "f" }', '{ printf("%s", a) > "f" }', '{ print (1)(2) > "f" }', '{ print | "x" }'),
    *('{ print |& "x" }', '"x" | getline', '{ "x" | getline y }', '{ getline < "f" }', '{ getline y < "f" }', '@load "x"', '@include "x"'),
    *('BEGIN { f = "system"; @f("x") }', '{ for (; !i++; print > "f") n }', 'BEGIN print > "f"', '{ if (x) /"/; print > "f"; "/ }'),
    *('{ x++ /"/; print > "f"; "/ }', '{ print "a\n" > "f" }', '# c \\\n{ print > "f" }', 'BEGIN { SYMTAB["a"] = 1 }', "BEGIN { ARGV[1] = f }"),
    *('BEGIN { awk::system("x") }', '@namespace "a"', '{ extension("x") }', '{ print a; print b > c }', "{ print\v> f }", '{ a /= "/" }'),
]  # fmt: skip
SED_RUNS = [
    *("p", "1,5p", "s/a/b/g", "s|/usr|/opt|2p", "/x/,/y/{s/a/b/;p}", ":a;N;$!ba;s/\\n/ /g", "1i # a header", "$a\\\nthe end;\\\nw f"),
    *("/x/c\\  indented", "1r header.txt", "s/,/\\\n/g", "y/abc/xyz/", "/^$/d; /^#/d", "\\,a,d", "1!G;h;$!d", "/x/{p;b};d", "a a\\tb"),
    *("$!{N;P;D}", "0~3!d", "/x/I,+2p", "s/[^,]*,//3", "t end; s/a/b/; : end", "10q", "n;d", "a w f", "b a # c\n: a", "1a a\\\\\nd"),
]  # fmt: skip
SED_ASKS = [
    *("w f", "1e x", "e", "s/a/x/e", "s/a/b/w f", "/x/W f", "p;w f", "s/a/b/ge", "$!{p;w f\n}"),
    *("a b\\\\\ne x", "1a\\\nb\\\\\nw f", "i\\\\\ne x", "c b\\\\\\\\\nw f", "b a e x", "t a\te x", ": a e x", "ba}w f", "b a#;w f"),
    *(":x;a\\\nw f", "s/[/]/w f;s//", "s/a\nb/c/", "r f;w g", "R a}\nw f", "y/a\\/b/xyz/;w f", "sxaxbxe", "#\\\nw f", "k", "s/a", "/x"),
]  # fmt: skip


def outcomes(command: str) -> set[str]:
    return {
        kind for kind, given_rules in RULES.items() if run(given_rules, command).outcome is ALLOW
    }


@for_each("command", [
    *(f"awk {shlex.quote(script)} f" for script in AWK_RUNS),
    *(f"sed {shlex.quote(script)} f" for script in SED_RUNS),
    *("awk -F: -v n=3 '{print $n}' f", "awk -F '\\t' '{print $2}' f"),
    *("awk '{print $1}' n=3 f", "gawk -W posix 1 f", "sed -n -e 1p -e '$p' f", "sed -n --expression=1p f"),
    *("sed -i s/a/b/ f", "sed -i -e 's/a/b/' -e '/x/d' f g", "sed -i '' s/a/b/ f", "sed -E -n '/(a|b)+/p' f"),
    *("awk '{print $1}' print.log system.txt 'a (1).txt'", "awk -F '|' -v 'x=(a)' '{print $2, x}' f", "gawk -e '{print}' f.txt"),
    *("sed -i s/a/b/ 'my file.txt' wait.txt", "sed -l 5 -n l f", "sed -n p 'w f'"),
])  # fmt: skip
def test_an_ordinary_script_runs_under_a_rule_for_its_program(command: str) -> None:
    assert outcomes(command) == RULES.keys()


@for_each("command", [
    *(f"awk {shlex.quote(script)} f" for script in AWK_ASKS),
    *(f"gawk -e {shlex.quote(script)} f" for script in AWK_ASKS),
    *(f"sed {shlex.quote(script)} f" for script in SED_ASKS),
    *(f"sed -i {shlex.quote(script)} f" for script in SED_ASKS),
    *(f"sed -e p -e {shlex.quote(script)} f" for script in SED_ASKS),
    *("gawk -W exec=f", "gawk -Wsource='{print > \"f\"}' 1", "mawk -W exec f", "mawk -We f", "gawk -W file=f", "gawk -W load=x 1"),
    *("awk -F --source= 'BEGIN { system(\"x\") }'", "awk -F -e1 '{ print > \"f\" }' g", "gawk --sour='{ print > \"f\" }' g"),
    *("awk 1 --source '{ print > \"f\" }' g", "sed -l -ep 'w f' g", "sed -l --expression=p '1e x' g", "sed --expr='w f' g", "sed -i '' 'w f' g"),
    # An awk that does not know an option takes the next word for its program.
    *("original-awk -e1 '{ print > \"f\" }'", "awk --source=1 '{ print > \"f\" }' g", "gawk --source= '{ print > \"f\" }' g", "awk --source= \"$X\""),
    *("awk --assign '{ print > \"f\" }' 1", "awk --lint --assign '{ print > \"f\" }'", "awk --field-separator \"$X\" 1", "awk -e 1 '{ print > \"f\" }'"),
    *("sed -l 'w f' g", "sed --li --ex=p 'w f'", "sed -l -l 'w f'", "sed -i s/a/b/ 'w f'", "sed -I .bak '1e x' f", "sed --line-length=p 'w f' g"),
    *("awk -f f g", "awk -E f", "gawk -i inplace 1 f", "gawk -l x 1", "gawk -o f 1", "sed -f f g", "sed -nf f g", "sed \"$X\" f", "awk \"$X\" f"),
])  # fmt: skip
def test_a_script_that_is_not_known_to_be_harmless_asks(command: str) -> None:
    assert outcomes(command) == set()


def test_other_names_of_awk_have_the_same_arguments() -> None:
    for name in ("gawk", "mawk", "nawk", "original-awk", "busybox awk"):
        given_rules = rules(shell_rule("allow", commandPrefix=name))
        assert run(given_rules, f"{name} '{{ print $1 }}' f").outcome is ALLOW
        assert run(given_rules, f"{name} '{{ print > $1 }}' f").outcome is ASK


def test_a_question_shows_the_piece_of_the_script_that_asks() -> None:
    reason = run(RULES["prefix"], "sed 'p;w f' g").reason
    assert "'w f' in the sed script may write, run or load something" in reason


TESTS = rules(
    shell_rule("allow", commandPrefix=["echo", "cat", "pytest", "python -m pytest", "python3 -B -m pytest"]),
    shell_rule("allow", commandPrefix=["uv run pytest", "coverage run -m pytest", "python -mpytest"]),
    shell_rule("allow", commandPrefix=["python -m cProfile -m pytest", "python -Wd -X dev -m pytest"]),
    shell_rule("allow", commandPrefix=["python -m pdb", "python -m code", "python -m asyncio", "python -m sqlite3"]),
)  # fmt: skip
RUNNERS = [
    *("pytest", "python -m pytest", "python3 -B -m pytest", "python -mpytest", "uv run pytest"),
    *("coverage run -m pytest", "python -m cProfile -m pytest", "python -Wd -X dev -m pytest"),
]


@for_each("runner", RUNNERS)
def test_tests_do_not_read_a_debugger_s_commands_that_are_not_known(runner: str) -> None:
    for rest in ("--pdb", "--trace", "tests --trace -x", "--pdb --tb=short"):
        assert run(TESTS, f"{runner} {rest}").outcome is ALLOW
        assert run(TESTS, f"echo c | {runner} {rest}").outcome is ASK
        assert run(TESTS, f"{runner} {rest} < commands").outcome is ASK
        assert run(TESTS, f"cat commands | {runner} {rest}").outcome is ASK
        assert run(TESTS, f"{runner} {rest} <<< 'import os; os.system(\"x\")'").outcome is ASK
        assert run(TESTS, f"{runner} {rest} <<< q").outcome is ALLOW
    assert run(TESTS, f"cat data | {runner} -x tests").outcome is ALLOW


@for_each("runner", RUNNERS)
def test_arguments_of_tests_are_seen_however_they_are_started(runner: str) -> None:
    assert run(TESTS, f"{runner} -x -k name tests").outcome is ALLOW
    for rest in ("-p evil", "-c other.ini", "--rootdir=..", "-o addopts=x", "--pdbcls=evil:X"):
        assert run(TESTS, f"{runner} {rest}").outcome is ASK


@for_each("command", [
    *("cat f | python -m pdb a.py", "python -m pdb a.py < f", "python -m pdb -c '!x()' a.py", "python -m pdb a.py <<< '!x()'"),
    *("cat f | python -m code", "python -m code -q < f", "python -m asyncio <<< 'x()'", "cat f | python -m sqlite3 a.db"),
    "python -m sqlite3 ../a.db",
])  # fmt: skip
def test_a_module_with_a_console_does_not_read_what_is_not_known(command: str) -> None:
    assert run(TESTS, command).outcome is ASK


@for_each("command", [
    *("python -m pdb a.py", "python -m pdb -c continue a.py", "python -m pdb a.py <<< bt", "python -m code < /dev/null"),
])  # fmt: skip
def test_a_module_with_a_console_runs_with_known_commands(command: str) -> None:
    assert run(TESTS, command).outcome is ALLOW


PROGRAMS = {
    "awk": ["gawk", "mawk", "original-awk", "busybox awk", "gawk --posix"],
    "sed": ["sed", "sed -E", "sed --posix", "busybox sed"],
}
AWK_PIECES = [
    *('system("touch M")', 'print > "M"', '"touch M" | getline', 'print "x",\n1 > "M"', 'print | "touch M"', "{", "}", "(", ")", ";", "\n"),
    *('"', "/", '/"/', '"/"', " ", "a", "1", ",", "if (a) ", "for (;!i++;", "while (i++<1) ", "do ", "else ", "print ", "#", "\\\n", "++", "=", ">"),
    *("BEGIN", "a[1]", "$1", "/[/]/", "~", "!", '\\"', "length", "getline", "f(", "function f(x) "),
]  # fmt: skip
SED_PIECES = [
    *("w M", "e touch M", "s/x/y/w M", "s/.*/touch M/e", "\n", ";", "\\\n", "\\", "a x", "a\\\n", "i\\", "c", "b", "t x", ":", ":x", " ", "}", "{"),
    *("/", "s/", "x/", "s,x,", "y/a/b/", "[", "]", "[^/]", "p", "1", "$!", "#", "r in", "\\,", "//", "w", "e", "n;d", "\\\\\n", "I", "q"),
]  # fmt: skip


def scripts(pieces: list[str]) -> st.SearchStrategy[list[str]]:
    script = st.lists(st.sampled_from(pieces), min_size=2, max_size=8).map("".join)
    return st.lists(script.filter(str.strip), min_size=150, max_size=150)


def run_allowed(language: str, texts: list[str], cwd: Path) -> list[str]:
    """Runs the scripts that a rule allows with every program of the language; the files made."""
    option = "-e " if language == "sed" else ""
    words = [f"{option}{shlex.quote(text)} in" for text in dict.fromkeys(texts) if "M" in text]
    allowed = [
        each for each in words if run(RULES["prefix"], f"{language} {each}").outcome is ALLOW
    ]
    cwd = cwd / "work"
    cwd.mkdir(exist_ok=True)
    (cwd / "in").write_text("x M\n1 2\n", encoding="utf-8")
    lines = [
        f"timeout 0.2 {program} {each}"
        for program in PROGRAMS[language]
        if shutil.which(program.split()[0])
        for each in allowed
    ]
    subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return sorted(path.name for path in cwd.iterdir() if path.name != "in")


quick = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@quick
@given(texts=scripts(AWK_PIECES))
def test_an_allowed_awk_program_neither_runs_nor_writes(texts: list[str], tmp_path: Path) -> None:
    assert run_allowed("awk", texts, tmp_path) == []


@quick
@given(texts=scripts(SED_PIECES))
def test_an_allowed_sed_script_neither_runs_nor_writes(texts: list[str], tmp_path: Path) -> None:
    assert run_allowed("sed", texts, tmp_path) == []


@pytest.mark.skipif(not shutil.which("awk"), reason="awk is not installed")
def test_a_program_that_asks_would_have_written(tmp_path: Path) -> None:
    command = "awk 'BEGIN { print 1,\n2 > \"M\" }'"
    assert outcomes(command) == set()
    subprocess.run(["bash", "-c", command], cwd=tmp_path, timeout=60, check=True)
    assert (tmp_path / "M").read_text(encoding="utf-8") == "1 2\n"
