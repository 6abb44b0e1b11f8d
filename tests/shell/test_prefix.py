"""Rules against commands: to allow word for word, to restrict however it is written."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from alhena.shell.parse.model import Part, Word, WordKind
from alhena.shell.prefix import Match, allows, prefix_words, restricts, useless_prefix
from alhena.shell.reach import Reached, reach
from tests.shell.parts import meant, part
from tests.support.each import for_each

NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES

RESTRICTED = [
    ("rm", "rm x", YES),
    ("rm", "/bin/rm", YES),
    ("/bin/rm", "rm x", YES),
    ("rm", "RM x", MAYBE),
    ("rm", "rmdir x", NO),
    ("rm", "echo rm", NO),
    ("rm", "$X y", MAYBE),
    ("rm", "/bin/r? y", MAYBE),
    ("git push", "git push -f", YES),
    ("git push", "git -C dir --no-pager push", YES),
    ("git push", "git -c a=b push", YES),
    ("git push", "git --git-dir x push", YES),
    ("git push", "git --git-dir=x --work-tree y push", YES),
    ("git push", "/usr/lib/git-core/git-push x", YES),
    ("git push", "git.exe push", MAYBE),
    ("git push", "git -C . status", NO),
    ("git push", "git -C push status", NO),
    ("git push", "git status push", NO),
    ("git push", "git log --grep push", NO),
    ("git push", "git --unheard-of x push", MAYBE),
    ("git push", "git $X push", MAYBE),
    ("git push", "git $X", MAYBE),
    ("git push", "git p*", MAYBE),
    ("git push", 'git "$X"', MAYBE),
    ("git push", "git status $X", NO),
    ("git push", 'git status "$X"', NO),
    ("git push", "xargs git", MAYBE),
    ("git push", "sudo git push", YES),
    ("git push", "git for-each-repo --config=x push", YES),
    ("git push", "git for-each-repo --keep-going --config x push origin", YES),
    ("git push", "git for-each-repo --config=x fetch", NO),
    ("git push", "git subtree push --prefix=x origin main", YES),
    ("git push", "git subtree --prefix=x push origin main", YES),
    ("git push", "git subtree pull --prefix=x origin main", NO),
    ("git push", "git subtree $X", MAYBE),
    ("git push", "git lfs push origin main", YES),
    ("git push", "git lfs pull", NO),
    ("git push", "git -C . send-pack x", YES),
    ("git push", "/usr/lib/git-core/git-send-pack x", YES),
    ("git push", "git http-push x", YES),
    ("git push", "git svn dcommit", YES),
    ("git push", "git submodule foreach git push", YES),
    ("git push", "git submodule foreach 'git push'", YES),
    ("git push", "hub push", YES),
    ("git push", "git stash push", NO),
    ("git push origin", "git lfs push origin main", YES),
    ("rm", "cmake -E rm x", YES),
    ("rm", "cmake -E env rm x", YES),
    ("rm", "cmake -E env A=1 --unset=B rm x", YES),
    ("rm", "cmake -E time rm x", YES),
    ("rm", "cmake -E chdir d rm x", YES),
    ("rm", "cmake -E remove_directory d", YES),
    ("rm", "cmake -E $X y", MAYBE),
    ("rm", "cmake -E echo rm", NO),
    ("rm", "cmake --build b", NO),
    ("rm", "gcc -wrapper rm,-f a.c", YES),
    ("rm", "ctest --build-and-test a b --test-command rm x", YES),
    ("rm", "rr record rm x", YES),
    ("rm", "rr record -o d rm x", YES),
    ("rm", "pixi run rm x", YES),
    ("rm", "pixi run -e dev rm x", YES),
    ("rm", "flatpak run --command=rm app x", YES),
    ("rm", "heroku run rm x", MAYBE),
    ("rm", "cross-env A=1 rm x", YES),
    ("rm", "xcrun rm x", YES),
    ("rm", "ssh-agent rm x", YES),
    ("rm", "meson test --wrapper rm", YES),
    ("rm", "nodemon --exec rm", YES),
    ("rm", "concurrently 'ls' 'rm x'", YES),
    ("rm", "dune exec -- rm x", YES),
    ("git push --force", "git push -f", YES),
    ("git push --force", "git push origin main --force", YES),
    ("git push --force", "git push origin main --forc", MAYBE),
    ("git push --force", "git push --force-with-lease", NO),
    ("git push --force", "git push origin $X", MAYBE),
    ("git push --force", "git push origin main", NO),
    ("git push -f", "git push --force", YES),
    ("git push origin", "git push -f origin", YES),
    ("git reset --hard", "git -C x reset HEAD~1 --hard", YES),
    ("git clean -f", "git clean -xdf", YES),
    ("git commit --amend", "git commit -m x --amend", YES),
    ("git branch -D", "git branch -d x", NO),
    ("git -C /x push", "git -C /x --no-pager push", YES),
    ("git -C /x push", "git -C /y push", NO),
    ("rm -rf", "rm -f -r x", YES),
    ("rm -rf", "rm -r -f x", YES),
    ("rm -rf", "rm x -vRf", YES),
    ("rm -rf", "rm --recursive --force x", YES),
    ("rm -rf", "rm --rec --for x", MAYBE),
    ("rm -rf", "rm -f x", NO),
    ("rm -rf", "rm $X", MAYBE),
    ("rm -rf", "rm *", MAYBE),
    ("rm -rf", "rm *.o", NO),
    ("rm -rf", "rm -- -rf", NO),
    ("rm -rf", "rm ./*", NO),
    ("rm -rf /", "rm -r -f /", YES),
    ("rm -rf /", "rm -rf --no-preserve-root /", MAYBE),
    ("rm -rf /", "rm -rf /tmp", NO),
    ("rm --recursive", "rm -r x", YES),
    ("chmod -R 777", "chmod --recursive 777 .", YES),
    ("docker rm", "docker --context x rm c", YES),
    ("docker rm", "docker container rm c", YES),
    ("docker rmi", "docker image rm c", YES),
    ("docker container rm", "docker rm c", YES),
    ("docker rm", "docker run --rm x", NO),
    ("docker run", "podman run x", NO),
    ("docker compose down", "docker compose -f x down", YES),
    ("docker compose down", "docker compose up", NO),
    ("npm publish", "npm --prefix x publish", YES),
    ("npm publish", "npm publ", MAYBE),
    ("npm publish", "npm --loglevel silent publish", YES),
    ("npm install", "npm i left-pad", YES),
    ("npm install -g", "npm i --global left-pad", YES),
    ("npm run deploy", "npm run-script deploy", YES),
    ("npm run deploy", "npm run --silent deploy", MAYBE),
    ("npm run deploy", "npm run build", NO),
    ("kubectl delete", "kubectl -n x delete pod", YES),
    ("kubectl delete", "kubectl --namespace x --context=y delete", YES),
    ("kubectl delete", "kubectl get delete", NO),
    ("cargo publish", "cargo +nightly publish", YES),
    ("cargo test", "cargo t", YES),
    ("go run", "go -C x run .", YES),
    ("pip install", "python3 -m pip install x", YES),
    ("terraform destroy", "terraform -chdir=x destroy", YES),
    ("systemctl stop", "systemctl --user -H h stop x", YES),
    ("gh pr merge", "gh -R a/b pr merge 1", YES),
    ("make deploy", "make -j4 V=1 deploy", YES),
    ("make deploy", "make -C x deploy", YES),
    ("aws s3 rm", "aws --profile x s3 rm y", YES),
    ("find . -delete", "find . -name x -delete", YES),
    ("find -delete", "find a -delete", YES),
    ("find . -delete", "find . -name x", NO),
    ("curl -X POST", "curl -XPOST url", YES),
    ("curl -X POST", "curl --request POST url", YES),
    ("curl -X POST", "curl -XGET url", NO),
    ("curl -XPOST", "curl url -X POST", YES),
    ("curl -X POST", "curl -X $X url", MAYBE),
    ("tar -xf a.tar", "tar -v -xf a.tar", YES),
    ("tar -xf a.tar", "tar -x -f a.tar", YES),
    ("tar -xf a.tar", "tar -x -f b.tar", NO),
    ("tar -xf a.tar", "tar -t -f a.tar", NO),
    ("find . -name=x", "find . -type f -name=x", YES),
    ("git push origin", "git push -u origin", MAYBE),
    ("curl -X POST", "curl -X POST url", YES),
    ("foo bar", "foo --opt bar", MAYBE),
    ("foo bar", "foo -o x bar", MAYBE),
    ("foo bar", "foo baz bar", NO),
    ("foo -rf", "foo -r -f", MAYBE),
    ("foo --force", "foo -f", MAYBE),
    ("foo -f", "foo --force", MAYBE),
    ("foo -f", "foo --quiet", NO),
    ("CI=1 npm test", "CI=1 npm test", YES),
    ("CI=1 npm test", "env CI=1 npm test", YES),
    ("CI=1 npm test", "npm test", NO),
    ("CI=1 npm test", "CI=$X npm test", MAYBE),
    ("rm *", "rm abc", YES),
    ("rm *", "ls abc", NO),
    ("rm $HOME", "rm $HOME", YES),
    ("rm $HOME", "rm x", NO),
    ("curl x | sh", "curl x", MAYBE),
    ("curl x | sh", "wget x", NO),
    ("echo > f", "echo a", MAYBE),
    ("a;;b", "b", NO),
    ("rm -rf", "python3 -c 'os.system(\"rm -rf x\")'", MAYBE),
    ("git push", "ssh host git push", MAYBE),
    ("rm", "bash -c \"rm $X\"", YES),
]  # fmt: skip


@for_each(("prefix", "command", "match"), RESTRICTED)
def test_a_restriction_finds_its_command(prefix: str, command: str, match: Match) -> None:
    assert meant(prefix, command) is match


ALLOWED = [
    *(("git", "git"), ("git", "git status"), ("git status", "git status -s"), ("ls", "ls $X *.py")),
    *(("npm test", "npm test -- --watch"), ("CI=1 npm test", "CI=1 npm test -q"), ("a", "'a' b")),
    *(("timeout 10 npm test", "timeout 10 npm test x"), ("sudo -u a ls", "sudo -u a ls -l")),
    *(("xargs grep", "xargs grep -l x"), ("xargs bash x.sh", "xargs bash x.sh"), ("env", "env"), ("env CI=1 npm", "env CI=1 npm test")),
    *(("bash build.sh", "bash build.sh all"), ("bash -c 'npm test'", "bash -c 'npm test'")),
    *(("uv run pytest", "uv run pytest -q"), ("npx eslint", "npx eslint ."), ("npm", "npm run x")),
    *(("./x.sh", "./x.sh a"), ("command -v", "command -v ls"), ("nice", "nice"), ("python", "python a")),
    *(("find . -exec grep", "find . -exec grep x {} +"), ("sudo timeout 5 ls", "sudo timeout 5 ls")),
    *(("docker", "docker run x"), ("echo 'a b'", 'echo "a b" c')),
]  # fmt: skip
NOT_ALLOWED = [
    *(("git", "gitk"), ("git", "/bin/git status"), ("git", "./git"), ("git status", "git -C . status")),
    *(("git status", "git 'status x'"), ("git status", "git $X"), ("git", "$X status"), ("git", "g*")),
    *(("npm test", "CI=1 npm test"), ("CI=1 npm test", "npm test"), ("CI=1 npm test", "CI=2 npm test")),
    *(("CI=1 npm test", "CI=1 A=2 npm test"), ("CI=1 npm", "CI+=1 npm test"), ("A=1 x", "A=$B x")),
    *(("timeout", "timeout 10 npm test"), ("timeout 10", "timeout 10 rm x"), ("sudo", "sudo ls")),
    *(("sudo -u a", "sudo -u a ls"), ("bash -c", "bash -c ls"), ("bash", "bash"), ("bash", "bash x")),
    *(("npm test", "timeout 10 npm test"), ("ls", "bash -c ls"), ("bash -c ls", "bash -c ls rm x")),
    *(("env", "env rm x"), ("env", "env $X"), ("env A=1", "env A=1 rm"), ("npx", "npx x"), ("xargs", "xargs rm")),
    *(("npm", "npm exec x"), ("npm exec", "npm exec x"), ("git", "git bisect run x"), ("eval ls", "eval ls")),
    *(("source x", "source x"), (". x", ". x"), ("uv", "uv run rm"), ("exec", "exec ls"), ("sudo", "sudo -s")),
    *(("sudo timeout", "sudo timeout 5 ls"), ("command", "command ls"), ("watch ls", "watch ls ';rm'")),
    *(("xargs env", "xargs env"), ("xargs timeout 5", "xargs timeout 5"), ("xargs bash", "xargs bash")),
    *(("find . -exec env", "find . -exec env rm {} +"), ("find . -exec sh", "find . -exec sh -c x \\;")),
    *(("find . -exec", "find . -exec timeout 5 rm \\;"), ("fd -x env", "fd -x env rm")),
    *(("'A=1' x", "A=1 x"), ("ls *", "ls *"), ("ls | wc", "ls"), ("", "ls"), ("export A", "export A")),
    *(("parallel ls", "parallel ls ::: x"), ("bash -s", "bash -s x"), ("bash /dev/stdin", "bash /dev/stdin")),
]  # fmt: skip


@for_each(("prefix", "command"), ALLOWED)
def test_a_prefix_allows_what_begins_with_its_words(prefix: str, command: str) -> None:
    assert allows(prefix, part(command))
    assert useless_prefix(prefix) is None or prefix in {"env", "nice", "git"}


@for_each(("prefix", "command"), NOT_ALLOWED)
def test_a_prefix_allows_nothing_else(prefix: str, command: str) -> None:
    assert not allows(prefix, part(command))


@for_each(
    ("prefix", "reason"),
    [
        ("timeout", "timeout runs another command, and the prefix does not name it"),
        ("sudo -u bob", "sudo runs another command, and the prefix does not name it"),
        ("npm exec", "npm exec runs another command, and the prefix does not name it"),
        ("bash -c", "bash runs any command, and the prefix does not name the script or the code"),
        ("bash", "bash runs any command, and the prefix does not name the script or the code"),
        ("eval ls", "eval makes later words mean something else"),
        ("CI=1", "it names no program, only CI=1"),
        ("ls | wc", "it is more than literal words, and only those are compared"),
        ("ls *", "it is more than literal words, and only those are compared"),
        ("git status", None),
        ("timeout 10 npm test", None),
    ],
)
def test_a_prefix_that_can_allow_nothing_says_why(prefix: str, reason: str | None) -> None:
    assert useless_prefix(prefix) == reason


@for_each(("prefix", "words"), [
        ("git status ", ("git", "status")),
        ("CI=1 B='x y' npm test", ("CI=1", "B=x y", "npm", "test")),
        ("find . -exec grep x {} \\;", ("find", ".", "-exec", "grep", "x", "{}", ";")),
        *((p, None) for p in ("", "''", "a | b", "a $b", "a *", "~/x", "if x", "a=b=~", "a\0", "! a", "a # b", "a[1]=2",
                             "A+=1 b", "a > b", "(a)")),
    ])  # fmt: skip
def test_the_words_of_a_prefix_are_literal(prefix: str, words: tuple[str, ...] | None) -> None:
    assert prefix_words(prefix) == words


WORDS = st.lists(st.text(st.sampled_from("ab-=/. '\"$*~x1"), max_size=6), min_size=1, max_size=5)


@given(WORDS, WORDS)
def test_quoted_words_of_a_prefix_are_these_words(first: list[str], second: list[str]) -> None:
    head = ["tool", *first]
    given = Part(text="", words=tuple(Word(w) for w in [*head, *second]))
    prefix = shlex.join(head)
    assert allows(prefix, given) is (prefix_words(prefix) == tuple(head))
    assert restricts(prefix, Reached(given.words)) is YES or prefix_words(prefix) is None


@given(WORDS)
def test_what_a_prefix_allows_a_restriction_by_it_finds(words: list[str]) -> None:
    given = Part(text="", words=tuple(Word(w) for w in ["git", *words]))
    prefix = shlex.join(["git", *words[:2]])
    if allows(prefix, given):
        assert restricts(prefix, reach(given).commands[0]) is YES


def test_an_unknown_word_can_be_any_number_of_words_unless_it_is_quoted() -> None:
    def command(*words: Word) -> Reached:
        return Reached((Word("git"), *words))

    many = Word("", WordKind.EXPANSION, "$X", split=True)
    one = Word("", WordKind.EXPANSION, '"$X"')
    assert restricts("git push origin", command(many)) is MAYBE
    assert restricts("git push origin", command(one)) is NO
    assert restricts("git push origin", command(one, Word("origin"))) is MAYBE
    assert restricts("git push origin", command(Word("pu", WordKind.EXPANSION, "pu$X"))) is NO
    assert restricts("git push", command(Word("pu", WordKind.EXPANSION, "pu$X"))) is MAYBE
    assert restricts("git push", command(Word("st", WordKind.EXPANSION, "st$X"))) is NO
