"""Little languages in arguments: what is accepted only prints, judged by the real programs."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.shell.parse.model import Part, Word
from alhena.shell.readonly import not_read_only
from tests.shell.readonly_support import BASH, refusals
from tests.support.each import for_each

SED = [
    *"/[]\\;{}!$,|#:ab1 \nwersypndqtgIMFQx^*.+~&=",
    *("w o", "s/", "/e", "/w o", "[/]", "\\]", "[^", "[[:", "a:]", "\\\n", "s|", "e id", "r x"),
]
AWK = [
    *('system("touch P")', '> "P"', '| "touch P"', '"', "/", '/"/', '"/"', " ", "{", "}", "(", ")"),
    *(
        ";",
        "print ",
        "a",
        "$1",
        "1",
        ",",
        "if (a) ",
        "for (k in a) ",
        "length",
        "!",
        "~",
        "==",
        "\\",
    ),
    *(
        '\\"',
        "\\/",
        "[",
        "]",
        "/a/",
        "BEGIN",
        "END",
        "\n",
        "#",
        "-",
        "++",
        '"x"',
        "/[/]/",
        '/[^"]/',
    ),
    *("printf ", "in", "?", ":", ">", '="P"', "else ", ";x", '/ "', '" /', "getline", "|"),
]
JQ = [
    *("env", "$ENV", "$", "ENV", ".", "..", "|", "(", ")", '"', "\\(", " ", "[", "]", "#", "\n"),
    *(
        "1",
        ",",
        ".env",
        "$env",
        "?",
        ":",
        "if 1 then ",
        " else ",
        " end",
        "_",
        "as $x|",
        "$__prog_args",
    ),
]
PRINTF = [*"%%%nsd5.*-lhq(T)\\x2 'c#+0", "\\x25", "\\045", "%%", "%(%n)T", "%s"]
TEST = [
    *("-f", "-v", "-n", "-R", "!", "=", "-a", "-o", "\\(", "\\)", "-eq", "-nt", "1", "x", "-t"),
    *("'a[$(touch P)]'", '"$x"', '"$y"', '"$z"', "$y", "''"),
]


def scripts(pieces: list[str], longest: int, count: int) -> st.SearchStrategy[list[str]]:
    script = st.lists(st.sampled_from(pieces), min_size=1, max_size=longest).map("".join)
    return st.lists(script, min_size=count, max_size=count)


def accepted_texts(program: str, texts: list[str]) -> list[str]:
    """Of these arguments those with which the program only reads."""
    parts = {text: Part(text="", words=(Word(program), Word(text))) for text in texts}
    return [text for text, part in parts.items() if not_read_only(part) is None]


def run(script: str, cwd: Path) -> str:
    done = subprocess.run(
        [BASH, "-c", script],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "SECRET": "hunter2", "x": "-v",
             "y": "a[$(touch P)]", "z": "="},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )  # fmt: skip
    return done.stdout.decode("utf-8", "replace")


quick = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.skipif(
    not shutil.which("sed") or "GNU" not in run("sed --version", Path("/")),
    reason="only GNU sed can tell whether a script would run or write",
)
@quick
@given(texts=scripts(SED, 9, 60))
def test_an_accepted_sed_script_neither_runs_nor_writes(texts: list[str], tmp_path: Path) -> None:
    lines = [
        f"timeout 1 sed {option} --sandbox -e {shlex.quote(text)}"
        for text in accepted_texts("sed", texts)
        for option in ("-E", "-n")
    ]
    assert "sandbox" not in run("\n".join(lines), tmp_path)


def test_the_sandbox_of_sed_would_tell() -> None:
    if "GNU" in run("sed --version", Path("/")):
        assert "sandbox" in run("sed --sandbox -e 'w o'", Path("/"))


@quick
@given(texts=scripts(AWK, 7, 80))
def test_an_accepted_awk_program_neither_runs_nor_writes(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1 2\n", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    lines = [f"timeout 1 awk {shlex.quote(text)} in" for text in accepted_texts("awk", texts)]
    run("\n".join(lines), tmp_path)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
@quick
@given(texts=scripts(JQ, 5, 30))
def test_an_accepted_jq_program_does_not_show_the_environment(
    texts: list[str], tmp_path: Path
) -> None:
    lines = [
        f"timeout 1 jq -n --arg env 1 -- {shlex.quote(text)}"
        for text in accepted_texts("jq", texts)[:8]
    ]
    assert "hunter2" not in run("\n".join(lines), tmp_path)


@quick
@given(texts=scripts(PRINTF, 6, 60))
def test_an_accepted_format_assigns_to_no_variable(texts: list[str], tmp_path: Path) -> None:
    lines = [
        f"v=kept; printf {shlex.quote(text)} v v v v >/dev/null 2>&1; [ $v = kept ] || echo changed"
        for text in accepted_texts("printf", texts)
    ]
    assert run("\n".join(lines), tmp_path) == ""


@quick
@given(lists=st.lists(st.lists(st.sampled_from(TEST), max_size=6), min_size=60, max_size=60))
def test_an_accepted_test_evaluates_nothing(lists: list[list[str]], tmp_path: Path) -> None:
    lines = [f"[ {' '.join(words)} ]" for words in lists]
    run("\n".join(line for line in lines if not refusals(line)), tmp_path)
    assert not (tmp_path / "P").exists()


def test_bash_would_evaluate_what_a_refused_test_hides(tmp_path: Path) -> None:
    line = "test -v 'a[$(touch P)]'"
    assert refusals(line) != []
    run(line, tmp_path)
    assert (tmp_path / "P").exists()


def test_a_number_of_bytes_printed_becomes_a_variable_in_bash(tmp_path: Path) -> None:
    assert run("printf %n v; echo $v", tmp_path) == "0\n"
    assert refusals("printf %n v") != []


@for_each("script", ["p", "2,5p;$!d", "s/[[:space:]]*$//", r"s/\//|/2gI", "/a/,/b/{/c/!d}", ":a;N;$!ba;s/\\n/,/g",
     "y/abc/xyz/", "/x/I,+3p", "0~4p", "s#[^,]*#&#p", "1i header", "$a the end", "/x/{n;p}",
     "# a comment", "1!G;h;$!d", "s/\\(a\\)\\[b]/\\1/", "10q", "/^$/d ; s/a/b/", "l 80", "="])  # fmt: skip
def test_a_plain_sed_script_is_accepted(script: str) -> None:
    assert accepted_texts("sed", [script]) == [script]


@for_each("program", ["1", "NR % 2", "{ print $1, $NF }", "$2 ~ /x/ { n++ } END { print n }", "!seen[$1]++",
     '{ printf "%5.2f\\n", $1 / 2 }', "{ if ($1 > 2) print; else print $2 }", "NF > 2 && /a[/]?/ || 1",
     '{ n = split($0, arr, ","); print arr[1] }', "BEGIN { OFS = \"\\t\" } { $1 = $1; print }",
     "{ sum[$1] += $2 } END { for (k in sum) print k, sum[k] }", "/[0-9.]+\\/x/", "(1 > 2) { print }"])  # fmt: skip
def test_a_plain_awk_program_is_accepted(program: str) -> None:
    expected = [] if "[/]" in program else [program]
    assert accepted_texts("awk", [program]) == expected


def test_a_very_long_awk_program_is_refused() -> None:
    assert accepted_texts("awk", ["1;" * 5000]) == []


@for_each("program", [".env", ".a.env", "..", ".include", "map(.environment)", '.["a"]', "$env", ".a as $x | $x",
     '"\\(.a)"', "keys | length", ".[] | select(.import == 1)"])  # fmt: skip
def test_a_plain_jq_program_is_accepted(program: str) -> None:
    assert accepted_texts("jq", [program]) == [program]
