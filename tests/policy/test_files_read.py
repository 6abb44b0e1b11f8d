"""Files that lines which only read may show unasked, decided among real files."""

from pathlib import Path

import pytest

from alhena.policy import trees
from tests.policy.test_files_read_oracle import KINDS, MARK, allowed_lines, build

ANYWHERE = """
grep -v -- -zzz ~/.ssh/id_x
grep -v ~/.ssh/*
grep ~/.ssh/id_x README.md
grep -e foo -- ~/.ssh/id_x
grep -ve foo ~/.ssh/id_x
grep --regex foo ~/.ssh/id_x
grep x* ~/.ssh/id_x
grep foo -f ~/.ssh/id_x README.md
awk -- -1 ~/.ssh/id_x
gawk -F: -- 1 ~/.ssh/id_x
jq -R . ~/.ssh/id_x
jq -R -- . ~/.ssh/id_x
jq -n --rawfile x ~/.ssh/id_x '$x'
sed -n -- p ~/.ssh/id_x
sed -e p ~/.ssh/id_x
rg -v -- -zzz ~/.ssh/id_x
git grep --no-index -v -- -zzz ../out/file
git -C sub diff --no-index ../../out/file b.txt
diff --from-file=../out README.md
cat ~+/../out/file
cat $PWD/../out/file
cat {README.md,../out/file}
head -n $n README.md
cat $SHELL
cat $(git ls-files --format=/etc/passwd)
cat $(ls src)/../../out/file$(true)
for f in "a ../out/file"; do cat $f; done
for o in -f; do grep $o README.md x; done
for o in -r; do grep $o foo; done
fd --base-directory .. x ..
md5sum -c list
sha256sum --check list
wc --files0-from=list0
du --files0-from=list0
file -f list
file --files-from=list
git cat-file --batch
git stash show -p -u
git stash show --only-untracked
git config --get-regexp .
git config --get http.https://x.extraheader
git config -lf .git/config
git log*/x
git sh*w
git -C sub lo*
strings @list
echo $(true)$TOKEN$(true)
"""
HIDDEN = """
cat .e*
cat .ENV
cat .[^x]*
cat .e\\nv
cat .e\\n*
cat '.e'*
cat .en[v]
diff -rN . empty
diff -N . empty
diff -N empty .
diff --to-file=empty -rN .
git grep --no-index foo
git grep --untracked foo
git grep --recurse-submodules foo
git grep --no-index -e foo
git grep --no-index foo -- ':(glob)**'
git diff --no-index . empty
git diff --no-index empty sub/deep
grep -rn foo .
grep -rn foo
grep -d recurse foo
grep -rn foo sub
grep -r --include=* foo .
grep -r --exclude=b.txt foo .
grep -r --exclude=.env --include=.env foo .
rg --hidden foo
rg -uu foo
rg -. foo
rg -g '*' foo
rg -g '.e*' foo
rg --iglob '.E*' foo
rg --no-ignore -g '.env' foo
rg --type-add 'e:.env' -te foo
rg --ignore-file list foo
rg foo .env
"""
LINKED = """
cat link.txt
cat l*
cat src/*/*
cat $(git ls-files)
grep -n x $(git ls-files)
for f in $(git ls-files); do head "$f"; done
cat $(ls)
cat $(find . -name '*.txt')
diff -r src sub
diff -rN src empty
grep -R foo src
grep --dereference-recursive foo .
rg -L foo
rg --follow foo src
find -L . -name x
find . -follow
ls -LR src
du -L .
tree -l
echo src/*/*
for f in src/*/*; do echo "$f"; done
"""
NAMES = {
    "names like options": """
grep x *
grep x ?R
cat *
for f in *; do grep x "$f"; done
grep x $(git ls-files)
""",
    "names that divide": """
for f in *; do cat $f; done
cat $(ls)
cat $(git ls-files)
""",
    "names that are globs": """
for f in *; do cat $f; done
cat $(git ls-files)
cat b\\[*
cat 'b[c]'
""",
    "shown again": "rg foo\nrg foo sub",
    "ignored": "rg foo private\ngrep -rn foo src\nrg --no-ignore foo\nrg -u foo",
    "credentials": "grep -rn foo .\nrg --hidden foo\ndiff -rN .git empty\nrg foo .git",
    "linked to a secret": "cat name\ncat n*\nrg -L foo\ngrep -R foo .",
}
UNASKED = {
    "hidden": """
grep -rn TODO src
grep -rn foo sub/b.txt
grep -rn foo . --include=*.py
grep -rn foo . --include='*.py' --include='*.md'
grep -rn --exclude-dir=sub --exclude=.env foo .
grep -rn foo . --exclude='.env*'
grep -eRead README.md
grep -ve Read README.md
grep -e '/etc/passwd' README.md
grep -n -- -x README.md
grep -n -- "$x" README.md
grep -e "$x" README.md
grep -rn "/usr/lib" src
rg foo
rg -n foo src sub
rg -g '*.py' x
rg -g '!*.md' foo
rg --hidden -g '*.py' foo
rg --files --hidden
git check-ignore -v .env
git ls-files .env
git grep foo
git grep -n foo -- '*.py'
git diff README.md sub/b.txt
git diff
git log -p -- src
git config --get user.email
awk '{print $1}' README.md
sed -n '/foo/,/bar/p' README.md
jq -R . README.md
diff README.md sub/b.txt
diff -r src empty
diff <(sort README.md) <(sort sub/b.txt)
find . -path './.git/*' -prune -o -name '*.py'
ls -la
ls -R
wc -l $(git ls-files)
cat $(git ls-files '*.py')
cat $(find . -name '*.md')
for f in *.md; do head -1 "$f"; done
for f in *.md; do head -1 $f; done
head -5 README.md
echo "$PATH" $?
cat src/*.py
""",
    "linked": """
git grep foo
grep -rn foo .
wc -l $(git ls-files '*.py')
find . -name '*.py'
ls -la src
echo *
cat $(find . -name '*.py')
""",
    "nothing to hide": """
grep -rn foo .
grep -R foo .
rg --hidden foo
rg -uu foo
diff -r src sub
cat $(ls src)
git grep --no-index foo
find -L . -name x
ls -LR
grep foo *
""",
    "public": "grep -rn foo .\ndiff -rN . empty\nrg foo\nrg --hidden foo",
    "names like options": "grep x -- *.md\ngrep x ./*.md\ngrep x *.md\ncat src/*.py",
    "ignored": "rg foo\nrg foo src\ncat .gitignore",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "text"),
    [("nothing to hide", ANYWHERE), ("hidden", HIDDEN), ("linked", LINKED), *NAMES.items()],
    ids=["nothing to hide", "hidden", "linked", *NAMES],
)
def test_what_may_show_a_secret_or_a_file_from_elsewhere_is_asked_about(
    kind: str, text: str, home: Path
) -> None:
    lines = text.strip().splitlines()
    assert allowed_lines(build(home, KINDS[kind]), lines) == []


@pytest.mark.parametrize("kind", UNASKED)
def test_what_can_reach_no_secret_runs_unasked(kind: str, home: Path) -> None:
    lines = UNASKED[kind].strip().splitlines()
    assert allowed_lines(build(home, KINDS[kind]), lines) == lines


@pytest.mark.parametrize(
    "setting",
    ["//registry.example.org/:_authToken=x", "_password=x", "# x=y", "registry=https://a:b@c/"],
)
def test_settings_of_npm_that_may_hold_a_secret_are_asked_about(setting: str, home: Path) -> None:
    work = build(home, {".npmrc": f"save-exact=true\n{setting}\n"})
    assert allowed_lines(work, ["grep -rn foo .", "rg --hidden foo"]) == []


def test_where_there_is_no_repository_git_compares_directories_as_they_are(home: Path) -> None:
    plain = home / "plain"
    (plain / "empty").mkdir(parents=True)
    (plain / ".env").write_text(MARK, encoding="utf-8")
    assert allowed_lines(plain, ["git diff . empty", "git grep foo"]) == []


def test_very_many_files_are_not_looked_through(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MOST_ENTRIES", 50)
    work = build(home, {f"many/{number}": "" for number in range(50)})
    assert allowed_lines(work, ["grep -rn foo .", "grep -rn foo src"]) == ["grep -rn foo src"]
