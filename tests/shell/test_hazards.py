"""Arguments by which a reader writes, deletes or runs, beyond what a rule names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.shell.beyond import hazard
from alhena.shell.languages.sed_awk import ScriptEffect, sed_effect
from alhena.shell.parse.model import Part, Word, WordKind
from tests.shell.parts import part
from tests.support.each import for_each

HAZARDOUS = [
    *("find . -delete", "find . -name x -exec rm {} +", "find . -ok ls \\;", "find . -fprint f"),
    *("find . -fls f", "find . -execdir sh -c x \\;", "find $X -name a", "find . -name $X", "find *"),
    *("sort -o f g", "sort -of g", "sort -uo f g", "sort -ruof g", "sort --output=f g", "sort --outp f"),
    *("sort --compress-prog=x f", "sort --compress-program x f", "sort $X", 'sort "$X"', "sort *.txt"),
    *("sort -u$X f", "sed -i s/a/b/ f", "sed -ni p f", "sed -i.bak p f", "sed --in-place p f"),
    *("sed --in-pl p f", "sed 'w f' g", "sed -n '/x/w f' g", "sed 1e f", "sed 's/a/b/e' f", "sed s/a/b/w\\ f g"),
    *("sed -e p -e 'w f' g", "sed --expression='1e ls' g", "sed -f x g", "sed \"$X\" f", "sed 's/a' f"),
    *("rg --pre ls x", "rg --pre=ls x", "rg --hostname-bin x y", "rg $X"),
    *("git -c core.pager=x log", "git -ccore.pager=x log", "git --exec-path=/x status", "git -p log"),
    *("git --config-env=a=B log", "git --git-dir=x status", "git --git-dir x status", "git $X"),
    *("git diff --output=f", "git log --output f", "git log --outp=f", "git diff --ext-diff"),
    *("git show --textconv", "git grep -O x", "git grep -Oless x", "git grep --open-files-in-pager x"),
    *("git fetch --upload-pack=x", "git clone -u x y", "git clone ext::sh x", "git fetch 'ext::sh -c x'"),
    *("git push --receive-pack=x", "git push --exec=x", "git archive -o f HEAD", "git rebase -x ls"),
    *("git rebase --exec ls main", "git bisect run ls", "git submodule foreach ls", "git difftool -x y"),
    *("git config core.pager x", "git config --global alias.x '!y'", "git log $BRANCH", "git diff $X"),
    *("git config core.fsmonitor x", "git clone --template=x y", "git -C x diff --output=f"),
    *("git ls-remote --upload-pack=x .", "git log --output f -- x", "git log -n 3 --textconv"),
    *("diff -l a b", "diff --paginate a b", "less +!x f", "less -o f g", "less -of g", "man -P x ls"),
    *("man --pager=x ls", "man -Hx ls", "tar --to-command=x -xf a", "tar -xf a --to-comm x"),
    *("tar xf a --checkpoint-action=exec=x", "tar -I x -xf a", "tar xIf x a", "tar --use-compress=x -tf a"),
    *("tar --rsh-command=x -tf a", "tree -o f", "tree -ao f", "date -s x", "date --set=x", "date 01010000"),
    *("date $X", "curl -o f u", "curl -Of u", "curl -sSLo f u", "curl --output f u", "curl -K f"),
    *("curl --config f", "curl -O u", "curl --remote-name u", "curl -D f u", "curl -c f u", "curl --outp=f u"),
    *("wget -O f u", "wget -qOf u", "wget -e x=y u", "wget --use-askpass=x u", "wget --execute x u"),
    *("awk 'BEGIN{system(\"x\")}'", "awk '{print > \"f\"}' g", "awk '{print | \"x\"}' f", "awk -f x f"),
    *("awk '\"x\" | getline' f", "awk \"$X\" f", "gawk -i inplace '{print}' f", "gawk -l x '1' f"),
    *("gawk -e 'BEGIN{system(\"x\")}'", "uniq a b", "uniq -c a b", "uniq $X", "xxd a b", "shuf -o f g"),
    *("ssh -o ProxyCommand=x h", "ssh -oProxyCommand=x h", "ssh -F f h", "rsync -e x a b", "rsync --rsh=x a b"),
    *("rsync -ave x a b", "make test SHELL=x", "make test CC='x y'", "make -f x test", "make --eval=x"),
    *("make test MAKEFLAGS=x", "go test -exec x ./...", "go build -toolexec x", "go test -exec=x", "go vet -vettool=x"),
    *("go build --toolexec=x", "go build -o ../f", "cargo --config x test", "cargo test --config=x"),
    *("npm --script-shell=x test", "npm test --script-shell x", "pip install --index-url x y", "pip install -i x y"),
    *("hostname x", "dmesg -C", "iconv -o f g", "kubectl --kubeconfig=x get pods", "gh api -X POST /x"),
    *("fd -x ls", "fd . --exec-batch ls", "gofmt -w f", "prettier --write f", "prettier -w f", "eslint --fix ."),
    *("xargs sort", "xargs -n1 sed -n p", "timeout 5 sort -o f g", "env A=1 find . -delete"),
    *("scp -S x a b", "ssh -o LocalCommand=x h", "journalctl --vacuum-size=1", "sysctl -w a=b", "sysctl a=b"),
    *("gsed -i p f", "gfind . -delete", "bat --pager=x f", "zip -T -TT x a b", "sdiff -o f a b"),
]  # fmt: skip
HARMLESS = [
    *("find . -name '*.py' -type f", "find . -name \"$X\"", "find src -newer a -print0", "find . -printf '%p'"),
    *("sort f", "sort -u -k2 -t, f", "sort -k \"$N\" f", "sort -to f", "sort -- $X", "sort ./*.txt"),
    *("sort -o /dev/null f", "sort --check f", "sed -n 1,5p f", "sed 's/w/e/g' f", "sed -e p -e d f", "sed -n '$p'"),
    *("sed 's|/a|/b|' f", "rg -n x src", "rg --pretty x", "rg -e \"$X\" src", "grep -r $X .", "cat $X *.md", "ls *"),
    *("git status", "git -C . status", "git log --oneline -5", "git diff HEAD~1", "git show --stat HEAD"),
    *("git diff --text", "git log -- $X", "git log --format=\"%h$X\"", "git log -n \"$N\"", "git add *.py"),
    *("git commit -m \"$M\"", "git config user.name", "git config core.pager", "git grep -n x", "git push origin main"),
    *("git log -S x --output-indicator-new=x", "git checkout $B", "git --no-pager diff", "git bisect good"),
    *("diff -u a b", "less f", "man ls", "tar tzf a.tgz", "tar -xzf a.tgz -C d", "tar --checkpoint=1 -tf a"),
    *("tree -L 2", "date +%F", "date -d tomorrow +%s", "date", "curl -s https://x", "curl -s -o /dev/null -w %{http_code} u"),
    *("curl -H 'A: b' -d x u", "wget -q -O - u", "awk '{print $1}' f", "awk '$3 > 100' f", "awk -F: -v a=b '{print a}' f"),
    *("awk '/a|b/' f", "uniq -c f", "uniq f -", "ssh -o BatchMode=yes h ls", "rsync -a a b", "make -j4 test V=1"),
    *("make -C sub test", "go test ./... -run X", "cargo test --all", "npm test", "npm run build", "pip list"),
    *("hostname", "gh pr list", "gh api /x", "kubectl -n a get pods", "ls | xargs grep x", "prettier --check ."),
    *("eslint . --ext .js", "echo $X", "unknown --output=f", "$X -o f", "cp a b", "rm x", "tee f", "python -c x"),
]  # fmt: skip


@for_each("command", HAZARDOUS)
def test_a_hazard_is_seen(command: str) -> None:
    assert hazard(part(command), ()) is not None


@for_each("command", HARMLESS)
def test_everyday_arguments_are_no_hazard(command: str) -> None:
    only = part(command.rsplit("| ", 1)[-1] if "| xargs" in command else command)
    assert hazard(only, ()) is None


@for_each(
    ("named", "command", "hazardous"),
    [
        ("find . -delete", "find . -delete", False),
        ("find . -delete", "find . -delete -delete", True),
        ("find . -exec", "find . -exec rm {} +", True),
        ("find . -exec grep", "find . -exec grep x {} +", False),
        ("find . -exec grep", "find . -exec grep x {} + -exec rm {} +", True),
        ("sort -o", "sort -o f g", False),
        ("sort -o f", "sort -o f g --output=h", True),
        ("sed -i", "sed -i s/a/b/ f", False),
        ("sed -i", "sed -i 'w f' g", True),
        ("git rebase --exec", "git rebase --exec ls", True),
        ("git rebase --exec ls", "git rebase --exec ls main", False),
        ("git bisect run make", "git bisect run make test", False),
        ("git bisect", "git bisect run make", True),
        ("git bisect run", "git bisect run make", True),
        ("CI=1 sort -o", "CI=1 sort -o f", False),
        ("timeout 5 sort", "timeout 5 sort -o f g", True),
        ("timeout 5 sort -o", "timeout 5 sort -o f g", False),
        ("curl -o", "curl -o f u", False),
        ("git config alias.x", "git config alias.x y", False),
        ("make SHELL=x", "make SHELL=x test", False),
        ("awk '{print > \"f\"}'", "awk '{print > \"f\"}' g", False),
    ],
)
def test_what_the_rule_names_is_no_hazard(named: str, command: str, hazardous: bool) -> None:
    import shlex

    assert (hazard(part(command), tuple(shlex.split(named))) is not None) is hazardous


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("find . -delete", "-delete deletes files, and the rule does not name it"),
        ("sort --outp=f", "--outp writes a file, and the rule does not name it"),
        ("sort -uo f", "-o writes a file, and the rule does not name it"),
        ("sort $X", "$X may turn out to be an option by which sort writes a file"),
        ("sed 1e f", "'1e' in the sed script may write, run or load something"),
        ("uniq a b", "b is the file that uniq writes"),
    ],
)
def test_a_hazard_is_one_sentence(command: str, sentence: str) -> None:
    assert hazard(part(command), ()) == sentence


ARGUMENTS = st.lists(st.sampled_from(["-", "--", "-o", "-n", "--output", "x", "-k", "=", "", "-oo", "--o", "{}"]), max_size=6)  # fmt: skip


@given(
    st.sampled_from(["sort", "git", "find", "sed", "curl", "tar", "awk", "make", "go"]), ARGUMENTS
)
def test_the_whole_command_named_is_never_a_hazard(program: str, arguments: list[str]) -> None:
    words = [program, *arguments]
    given_part = Part(text="", words=tuple(Word(w) for w in words))
    assert hazard(given_part, tuple(words)) is None


@given(ARGUMENTS, st.integers(0, 6))
def test_an_unknown_word_among_the_arguments_of_sort_is_a_hazard(words: list[str], at: int) -> None:
    known = [Word("sort"), *(Word(w) for w in words)]
    known.insert(at + 1, Word("", WordKind.EXPANSION, "$X", split=True))
    before = [w.text for w in known[: min(at + 1, len(known) - 1)]]
    if "--" not in before:
        assert hazard(Part(text="", words=tuple(known)), ()) is not None


@for_each(("script", "effect"), [
        *((s, ScriptEffect.NONE) for s in ("", "p", "1,5p", "s/a/b/gI2p", "$!N;P;D", "/x/{p;q}", "y/abc/wxe/")),
        *((s, ScriptEffect.NONE) for s in ("s/[^/]*$//", "s/[]/]/w/", "/[/]w f/p", "a w f", "0~3p", "\\,a,d", ":a;N;$!ba")),
        *((s, ScriptEffect.WRITES) for s in ("w f", "W f", "#\\\nw f", "s/a/b/w f", "s/a/b/gw f", "/x/w f", "p;w f", "p\nw f", "{w f\n}")),
        *((s, ScriptEffect.WRITES) for s in ("s/\\//x/;w f", "y/a\\/b/xyz/;w f", "s,/,x,w f", "1!w f", "$ w f")),
        *((s, ScriptEffect.RUNS) for s in ("e", "1e ls", "s/a/b/e", "s/a/b/ge", "s|a|b|;e x", "w f\ne ls")),
        *((s, ScriptEffect.UNKNOWN) for s in ("s/a", "s/a/b/Z", "k", "/x", "s/[/b/", "1,")),
    ])  # fmt: skip
def test_a_sed_script_is_read_to_its_end(script: str, effect: ScriptEffect) -> None:
    assert sed_effect(script) is effect
