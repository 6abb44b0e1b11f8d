"""The tables of options against the programs themselves: what is no hazard writes nothing."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from alhena.shell.beyond import hazard
from alhena.shell.parse.model import Part, Word
from alhena.shell.tables import program
from tests.support.patience import PATIENCE_S

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is the judge")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commits and a change, without settings of the user."""
    folder = tmp_path_factory.mktemp("repository")
    quiet(["git", "init", "-q", "."], folder)
    for text in ("one\n", "one\ntwo\n"):
        (folder / "a.txt").write_text(text, encoding="utf-8")
        quiet(["git", "add", "a.txt"], folder)
        quiet(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], folder)
    (folder / "a.txt").write_text("one\nthree\n", encoding="utf-8")
    return folder


def quiet(words: list[str], folder: Path) -> None:
    subprocess.run(
        words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )


def no_hazard(words: list[str]) -> bool:
    return hazard(Part(text="", words=tuple(map(Word, words))), tuple(words[:2])) is None


def writes_file(words: list[str], folder: Path) -> bool:
    out = folder / "out.txt"
    quiet(words, folder)
    found = out.exists()
    out.unlink(missing_ok=True)
    return found


@needs_git
@pytest.mark.parametrize("subcommand", ["log", "diff", "show", "rev-list", "shortlog"])
def test_whatever_stands_before_it_git_writes_only_where_a_hazard_is_seen(
    repository: Path, subcommand: str
) -> None:
    assert writes_file(["git", "log", "--output=out.txt", "HEAD"], repository)
    table = program(f"git {subcommand}")
    assert table is not None
    options = [name for name, each in table.options.items() if not each.effect]
    wrote = 0
    for option in options:
        for middle in ([], ["--"]):
            words = ["git", subcommand, option, *middle, "--output=out.txt", "HEAD"]
            if no_hazard(words):
                assert not writes_file(words, repository), words
            wrote += 1
    assert wrote == 2 * len(options)


WRITING = [
    "shuf -e -o out.txt a b",
    "shuf -eo out.txt a b",
    "sort -k 1 -uo out.txt a.txt",
    "make -j -f evil.mk",
    "make -l -f evil.mk",
    "make -j '--eval=all:;>out.txt'",
    "xxd -ps a.txt out.txt",
    "xxd -s 1 a.txt out.txt",
    "uniq -f 1 a.txt out.txt",
    "sed -l 5 'w out.txt' a.txt",
    "sed -s -e p -e 'w out.txt' a.txt",
    "awk -v a=1 'BEGIN { print > \"out.txt\" }'",
    "tree -Lo 1 out.txt",
    "tree -aLo 1 out.txt",
    "iconv -f utf-8 -o out.txt a.txt",
    "gcc -Wl,-Map=out.txt a.c",
    "gcc -Wl,--Ma,out.txt a.c",
    "gcc -MD -MFout.txt -c a.c",
    "gcc -aux-info out.txt -c a.c",
    "gcc @args",
    "cpp a.c out.txt",
    "sqlite3 x.db '.sh >out.txt'",
    "sqlite3 x.db -cmd '.sys >out.txt'",
    "sqlite3 x.db '.once |cat >out.txt' 'select 1'",
    "sqlite3 x.db \"vacuum into 'out.txt'\"",
    "sqlite3 x.db \"select writefile('out.txt', 1)\"",
    "sqlite3 x.db -Acf out.txt a.txt",
    "vim -es '+!>out.txt' +q a.txt",
    "vim -es '-c!>out.txt' +q a.txt",
    "vim -es '+/a/|!>out.txt' +q a.txt",
    "vim -V1out.txt -es +q a.txt",
    "vim --startuptime out.txt -es +q a.txt",
    "ed '!>out.txt'",
    "gdb -batch -ex 'shell >out.txt'",
    "gdb --batch --eval-comm '!>out.txt'",
    "split --fil='cat >out.txt' a.txt",
    "openssl rand --out=out.txt 4",
    "openssl rand -writerand out.txt 4",
    "python3 -m json.tool -- b.json out.txt",
    "make '--ev=$(shell >out.txt)'",
]


@pytest.mark.parametrize("command", WRITING)
def test_what_a_program_writes_by_its_options_is_a_hazard(tmp_path: Path, command: str) -> None:
    texts = {"a.txt": "b\na\n", "a.c": "int main() { return 0; }\n", "b.json": "1\n"}
    texts |= {"evil.mk": "all:\n\t>out.txt\n", "args": "-c a.c -o out.txt\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = shlex.split(command)
    rule = words[: 3 if words[1] == "-m" else 1]
    assert hazard(Part(text="", words=tuple(map(Word, words))), tuple(rule)) is not None
    assert shutil.which(words[0]) is None or writes_file(words, tmp_path)
