"""Against the programs themselves: a line that runs unasked prints nothing from beyond the
workspace and no secret, whatever files, links and names the workspace has."""

import os
import subprocess
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from alhena.policy.engine import decide
from alhena.policy.model import PolicyCall, PolicyContext, PolicyOutcome
from alhena.policy.surroundings import Surroundings
from tests.policy.support import SHELL, rules, shell_rule
from tests.shell.oracle import BASH, needs_bash
from tests.support.patience import PATIENCE_S

MARK = "MARK-OF-A-SECRET"
_NEXT = "-- next line --"
READING = rules(shell_rule("allow", commandClass="read-only"))

PLAIN: dict[str, str | Path] = {
    "README.md": "foo bar\n",
    "src/a.py": "import os\n",
    "sub/b.txt": "foo\n",
    "sub/deep/c.txt": "foo\n",
    "empty/.keep": "",
    "list": ".env\n../out/file\n",
    "list0": ".env\0../out/file\0",
    ".gitignore": ".env*\nserver.key\nprivate/\n",
}
SECRETS: dict[str, str | Path] = {".env": f"{MARK}\n", "sub/deep/.env.local": f"{MARK}\n"}
KINDS: dict[str, dict[str, str | Path]] = {
    "nothing to hide": {},
    "hidden": SECRETS,
    "ignored": {"src/server.key": f"{MARK}\n", "private/a.pem": f"{MARK}\n"},
    "shown again": {**SECRETS, ".ignore": "!.env*\n"},
    "linked": {"link.txt": Path("../out/file"), "src/linked": Path("../../out")},
    "linked to a secret": {"sub/deep/.env": f"{MARK}\n", "name": Path("sub/deep/.env")},
    "names like options": {
        **SECRETS, "-R": "", "-f": "", "-e": "", "--no-ignore": "", "--hidden": "", "src/-r": ""
    },
    "names that divide": {".env": f"{MARK}\n", "a .env": "x\n", "x ./.env": "x\n"},
    "names that are globs": {".env": f"{MARK}\n", ".e*": "x\n", "b[c]": Path("../out/file")},
    "public": {
        ".npmrc": "# of all\nsave-exact = true\nregistry=https://registry.example.org/\n",
        "lib/roots.pem": "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n",
    },
    "credentials": {".git/config.worktree": f"[http]\n\textraheader = {MARK}\n"},
}  # fmt: skip

PROGRAMS = (
    "cat", "tac", "nl", "od -c", "head", "head -5", "head -n 5", "tail -n +1", "sort", "uniq",
    "cut -c1-", "paste", "fold", "fmt", "expand", "rev", "column", "strings -n 2", "xxd", "wc",
    "comm empty/.keep", "join empty/.keep", "look M", "file", "file -f", "wc --files0-from",
    "iconv -f utf-8", "shuf", "tsort", "numfmt", "hexdump -C", "zcat",
    "grep foo", "grep -v zzz", "grep -v -- -zzz", "grep -ve zzz", "grep -vezzz", "grep -r ''",
    "grep -R ''", "grep -d recurse ''", "grep -r --include=*", "grep -r --exclude=.env ''",
    "grep -f list", "grep --regexp= -s", "grep -vf empty/.keep", "grep -vn --", "egrep -v x",
    "grep -r --include=*.py --exclude=x ''", "grep -r --exclude-dir=sub ''", "fgrep -vs",
    "rg ''", "rg -L ''", "rg --hidden ''", "rg -uu ''", "rg -u ''", "rg --no-ignore ''",
    "rg -g '*' ''", "rg -g '*.py' ''", "rg -g '!.env' ''", "rg -ve zzz", "rg -f list -v",
    "rg -v -- -zzz", "rg -tpy ''", "rg --type-add 'e:.env' -te ''", "rg --files", "rg --iglob '.E*' ''",
    "sed ''", "sed -n p", "sed -n -- p", "sed -ne p", "sed -e p", "sed --expression=p",
    "awk 1", "awk -- 1", "awk -F: 1", "gawk -v x=1 1",
    "jq -R .", "jq -nR inputs", "jq -R --slurpfile x", "jq --rawfile x", "jq -n '[$x]' --rawfile x",
    "diff", "diff -N", "diff -rN", "diff -rN empty", "diff -N empty", "diff empty", "diff -rNx .env empty",
    "diff --from-file=empty -N", "diff --to-file=empty -rN", "diff README.md", "diff -r src",
    "git grep ''", "git grep --no-index ''", "git grep --untracked ''", "git grep -e '' --no-index",
    "git grep -vf list", "git diff", "git diff --no-index", "git diff --no-index empty",
    "git diff --no-index -- empty", "git -C sub diff --no-index", "git log -p", "git show",
    "git blame", "git blame --contents", "git cat-file -p", "git ls-files -o", "git -C sub grep --no-index ''",
    "git stash show -p -u", "git log*/x", "git sho*", "git config -f", "git status",
    "ls", "ls -R", "ls -LR", "ls -laL", "find", "find -L", "find . -follow -name", "tree", "tree -l",
    "du -a", "du -aL", "du --files0-from", "fdfind . -L", "stat -L", "readlink -f", "realpath",
    "md5sum", "md5sum -c", "cksum", "tar tf", "echo", "printf '%s'", "basename",
)  # fmt: skip
TARGETS = (
    "", "README.md", ".env", "~/.ssh/id_x", "~/.ssh/*", "$HOME/.ssh/id_x", '"$HOME"/.ssh/id*', "../out/file",
    "*", "./*", ".*", ".[^x]*", ".e\\nv", ".e\\n*", "'.e'*", "*env", "**/*", "src/*/*", "sub/*/.[e]*",
    "{.env,a}", "{../out/file,}", "src", "sub", ".", "..", "private", "src empty", ". empty", "empty .",
    "src/linked", "src/l*", "l*", "name", "n*", "list", "list0", "b*", "b\\[*",
    "-- .env", "-- -zzz .env", "-- -zzz ~/.ssh/id_x", "-r ''", "-R", "x *", "'' *", "'' .", "'' -r",
    "$(git ls-files)", "$(git ls-files -o)", "$(ls)", "$(ls -a)", "$(ls src)/linked", "$(find . -name '*')",
    "$(find . -name '*.txt')", "$(git ls-files --format=.env)", "`ls`", '"$(ls -d n*)"', "<(cat .env)",
    "<.env", "<*env", "<~/.ssh/id_x", "HEAD:.env", ":.env", ":/", ":(top).env", "HEAD -- '*env'",
    "~+/.env", "$PWD/.env", "$PWD/../out/file", "-f .env", "-f.env", "--file=.env", "-e x .env",
    "README.md -f .env", "$x .env", "'' $x .env", "-C .. ", "=.env", "=list0", "=~/.ssh/id_x",
)  # fmt: skip
FRAMES = (
    "{0} {1}",
    "cd sub && {0} ../{1}",
    "for f in {1}; do {0} $f; done",
    'for f in {1}; do {0} "$f"; done',
    "for o in -r -f -R --no-index; do {0} $o {1}; done",
)


def build(root: Path, files: Mapping[str, str | Path]) -> Path:
    """A workspace, with secrets beside it and in the home directory."""
    (root / "out").mkdir(parents=True)
    (root / "out/file").write_text(f"{MARK}\n", encoding="utf-8")
    (root / "out" / MARK).write_text("", encoding="utf-8")
    (root / "home/.ssh").mkdir(parents=True)
    (root / "home/.ssh/id_x").write_text(f"{MARK}\n", encoding="utf-8")
    work = root / "work"
    work.mkdir()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], cwd=work, check=True)
    for name, content in {**PLAIN, **files}.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_text(content, encoding="utf-8")
    subprocess.run([*git, "add", "-A"], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "one"], cwd=work, check=True)
    return work


def allowed_lines(work: Path, lines: list[str]) -> list[str]:
    """The lines that run unasked in a workspace."""
    context = PolicyContext(surroundings=Surroundings(work, trusted=True))

    def outcome(line: str) -> PolicyOutcome:
        call = PolicyCall(names=(SHELL,), args={"command": line})
        return decide(call, READING, context).outcome

    return [line for line in lines if outcome(line) is PolicyOutcome.ALLOW]


def printing_lines(work: Path, lines: list[str]) -> list[str]:
    """The lines that print a secret when bash runs them."""
    texts = [f"echo '{_NEXT}'; (\n{line}\n) </dev/null" for line in lines]
    done = subprocess.run(
        [BASH, "--norc", "--noprofile"],
        input="exec 2>&1\n" + "\n".join(texts),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work.parent / "home"),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        },
        cwd=work,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=PATIENCE_S,
    )
    outputs = done.stdout.split(f"{_NEXT}\n")[1:]
    assert len(outputs) == len(lines)
    return [line for line, output in zip(lines, outputs, strict=True) if MARK in output]


STRIDE = 191
"""Of all lines, one in so many is tried in each workspace; a prime, so that each has others."""


@needs_bash
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_runs_unasked_shows_no_secret(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = build(tmp_path, KINDS[kind])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    lines = [frame.format(*each) for each in product(PROGRAMS, TARGETS) for frame in FRAMES]
    chosen = [*lines[list(KINDS).index(kind) :: STRIDE], "cat README.md", "ls"]
    unasked = allowed_lines(work, chosen)
    assert len(unasked) > len(chosen) // 10
    assert printing_lines(work, unasked) == []
    assert printing_lines(work, ["cat README.md", "cat ../out/file"]) == ["cat ../out/file"]
