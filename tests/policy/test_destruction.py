"""A rule for any command still asks before what destroys beyond the workspace."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.policy.engine import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext
from alhena.policy.surroundings import Surroundings
from tests.policy.corpus import destruction
from tests.policy.support import ALLOW, ASK, SHELL, rules, shell_rule
from tests.support.bash import run_silently
from tests.support.each import for_each

BLANKET = rules(shell_rule("allow", allowRedirection=True))


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Decision]:
    """Decides a command line of a workspace with links out of it, a sibling and a home."""
    workspace = tmp_path / "workspace"
    for folder in ("src", "sub", ".git", "../sibling", "../home/work"):
        (workspace / folder).mkdir(parents=True)
    (workspace / "src" / "a.txt").touch()
    for name, target in (("away", "/"), ("out", "../sibling"), ("f", "../sibling/f")):
        (workspace / name).symlink_to(target)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    context = PolicyContext(surroundings=Surroundings(workspace, trusted=True))

    def decide_command(command: str) -> Decision:
        return decide(PolicyCall(names=(SHELL,), args={"command": command}), BLANKET, context)

    return decide_command


DESTROYING = (
    "rm -rf ~/work",
    "rm -rf ../sibling",
    "rm -rf $HOME",
    'rm -rf "$HOME"/work',
    "rm -rf ${HOME}/x",
    'rm -rf "$X"/',
    "rm -rf $X/*",
    'rm -rf "${X}/bin"',
    "rm -rf away/home",
    "rm -rf out/",
    "rm -rf out/x",
    "rm -rf away/",
    "rm -r ~root",
    "rm -rf ~nobody/x",
    "rm -rf /home/*",
    "rm -rf $PWD/..",
    'rm -rf "$PWD"/../sibling',
    "rm -rf $OLDPWD",
    "rm -rf ~-/x",
    "rm -rf {sub,../sibling}",
    "rm -rf {sub,/home}/x",
    "rm -rf ../{a,b}",
    "rm -rf sub/../../sibling",
    "cd .. && rm -rf sibling",
    "cd ..; rm -rf sibling",
    "pushd .. && rm -rf sibling",
    "cd sub && rm -rf ../../sibling",
    "(cd ..; rm -rf sibling)",
    "find / -delete",
    "find .. -name x -delete",
    "find ../sibling -exec rm {} +",
    "find ~ -type f -exec rm -f {} \\;",
    "find away/ -delete",
    "git -C .. clean -fdx",
    "git --work-tree=.. clean -fdx",
    "git -C ~/work reset --hard",
    "git clean -fdx ../sibling",
    "rsync -a --delete src/ ../sibling/",
    "rsync -a --delete src/ host:/srv",
    "rsync src/ ../sibling/",
    "mv ../sibling /tmp/x",
    "mv ~/work .",
    "mv src/a.txt ../sibling/a",
    "mv /etc/hosts .",
    "truncate -s 0 ../sibling/f",
    "truncate -s 0 f",
    "shred -u ~/work/f",
    "> /etc/x",
    "echo x > /etc/x",
    "echo x >> ~/.bashrc",
    "cat a > ../sibling/f",
    ": > $HOME/x",
    "echo x &> ../y",
    "echo x > f",
    "chmod -R 777 ..",
    "chmod -R 000 ~/work",
    "chmod -R 777 out",
    "chown -R me:me ../sibling",
    "chown -R me /",
    "dd if=/dev/zero of=../x",
    "dd of=/dev/sda if=x",
    "mkfs.ext4 x",
    "mkfs /dev/sda",
    "tar cf x.tar --remove-files ../sibling",
    "tar -xf x.tar -C /",
    "tar xzf x.tgz -C ~/work",
    "cp src/a.txt ../sibling/",
    "cp a /etc/passwd",
    "cp -t ../sibling a b",
    "install -m 755 a /usr/bin/a",
    "ln -sf x ~/y",
    "tee ../x",
    "echo | sudo tee /etc/x",
    "sed -i s/a/b/ /etc/hosts",
    "sed -i -e s/a/b/ ../f",
    "perl -pi -e s/a/b/ ../f",
    "gzip ../f",
    "curl -o ../x http://a",
    "curl --output=/etc/x http://a",
    "wget -O ~/x http://a",
    "sort -o ../x a",
    "unlink ../f",
    "rmdir ../sibling",
    "bash -c 'rm -rf ../sibling'",
    "bash -c 'cd .. && rm -rf sibling'",
    "sh -c 'echo x > ../y'",
    "env -C .. rm -rf sibling",
    "env --chdir=/ rm -rf home",
    "sudo rm -rf ../sibling",
    "sudo -D / rm -rf home",
    "x=..; rm -rf $x/sibling",
    'x=../sibling; rm -rf "$x"',
    'export D=/home; rm -rf "$D"',
    'for d in a ../b; do rm -rf "$d"; done',
    'rm -rf "$(dirname "$PWD")"',
    "rm -rf $(cat list)",
    "rm -rf `echo /`",
    "rm -rf build/$(echo ../..)",
    'read d; rm -rf "$d"',
    'f() { rm -rf "$1"; }; f ..',
    "ls .. | xargs rm -rf",
    "find / -name x | xargs rm",
    "echo / | xargs rm -rf",
    "xargs rm -rf < list",
    "echo ~ | xargs -I{} rm -rf {}",
    "cat l | parallel rm {}",
    "ln -s / x; rm -rf x/home",
    "ln -s .. y && rm -rf y/sibling",
    "rm -rf -- ../sibling",
    "rm -rf ./-/../../sibling",
    "rm -rf .*/",
    "chmod -R 700 .*",
    'rm -rf "sub/"../../sibling',
    "rm -rf $'../sibling'",
    "rm -rf \\~/../../sibling",
    "rm -rf '/'home",
    "rm -rf ..//sibling",
    "rm -rf /./home",
    "rm -rf s*/../../sibling",
    "rm -rf o?t/x",
    "rm -rf {a..c}/../../x",
    "rm -rf ${X:-/}",
    "rm -rf ${X:-..}/sibling",
    "rm -rf ${HOME%/}/x",
    "rm -rf ${x/a/b}",
    'x=build; eval "rm -rf $x/.."',
    "fd . / -X rm",
    "fd . .. -x rm",
    "python3 -c 'import os; os.system(\"rm -rf ..\")'",
    "crontab -r",
    "patch -d / -p1",
    "unzip a.zip -d /",
    "git rm -rf ../sibling",
    "git -C ../sibling checkout .",
    "GIT_WORK_TREE=/ git clean -fdx",
    "X=. ; X=/home; rm -rf $X",
    'x="a /home"; rm -rf $x',
    'cd "$X" && rm -rf *',
    "cd - && rm -rf x",
    "bash -c 'x=..; rm -rf $x'",
    "x=build; bash -c 'x=/; rm -rf $x'",
    "sudo -u root -- rm -rf /home",
    "nice rm -rf ~/work",
    "timeout 5 rm -rf ~/work",
    "busybox rm -rf ~/work",
    "find . -exec sh -c 'rm -rf /home' \\;",
    "command rm -rf ~/work",
    "\\rm -rf ~/work",
    "/bin/rm -rf ~/work",
    "rm -rf /proc/self/cwd/../sibling",
    "rm -rf //",
    "mv src/a.txt ~/work/",
    "exec > ../f",
    "exec 3<> ../f",
    "{ echo a; } > ../f",
    "echo x >| ../f",
    "bash <<< 'rm -rf ../sibling'",
    "echo 'rm -rf ../sibling' | sh",
    "xargs -a list rm",
    "find -L . -delete",
    "rsync --remove-source-files ../sibling/ x",
    "find src away/ -delete",
    'while read f; do rm "$f"; done < list',
    'rm -rf "$1"',
    'set -- /; rm -rf "$@"',
    "DIR=$(realpath ..); rm -rf $DIR",
    "printf -v d /; rm -rf $d",
    "rm -rf ~/../..",
    'rm -rf "${HOME:?}"/*',
    'rm -rf "${X:?}"/*',
    "rm -rf *//../../sibling",
    "cd out && rm -rf x",
    "cd sub/.. && rm -rf ../sibling",
    "cd src; cd ..; cd ..; rm -rf sibling",
    'dd if=a "of=../x"',
    "ssh host rm -rf /",
)

HARMLESS = (
    "rm -rf build dist",
    "rm -rf ./build",
    'rm -rf "$PWD/build"',
    "rm -rf $(pwd)/build",
    'rm -rf "$(git rev-parse --show-toplevel)/build"',
    "rm -f *.o src/*.pyc",
    "rm -rf {build,dist}",
    "rm -rf build/{a,b}/x",
    "rm -f file{1..3}",
    "rm -rf /tmp/x",
    "rm -rf /tmp/x/*",
    'd=$(mktemp -d); cd src; rm -rf "$d"',
    'rm -rf "${TMPDIR:-/tmp}/x"',
    "cd src && rm -rf build",
    "cd src && rm -f ../a.txt",
    "cd sub; rm -rf *",
    'for f in *.o; do rm "$f"; done',
    "for i in 1 2 3; do rm build/$i; done",
    "for f in $(git ls-files '*.o'); do rm \"$f\"; done",
    "for i in $(seq 3); do rm build/$i; done",
    "find . -name '*.pyc' -delete",
    "find src -type f -exec rm {} +",
    "find . -name x -print0 | xargs -0 rm -f",
    "git ls-files -o | xargs rm",
    "find . -name x | xargs -I{} rm {}",
    "git clean -fdx",
    "git -C sub clean -fdx",
    "git checkout -- src",
    "git reset --hard",
    "git checkout main",
    "git stash",
    "rsync -a --delete src/ out2/",
    "rsync -a ../sibling/ copy/",
    "rsync -a src/ host:/srv",
    "mv src/a.txt sub/",
    "mv ~/work/a.zip .",
    "truncate -s 0 log",
    "echo x > log",
    "echo x >> sub/log",
    "echo x > /dev/null",
    "echo x 2>&1 >/dev/stderr",
    "echo x > /tmp/x",
    "make > build.log 2>&1",
    "chmod -R u+w dist",
    "chmod 600 ~/.ssh/id",
    "chown -R me:me .",
    "dd if=/dev/zero of=img bs=1M count=1",
    "tar czf x.tgz src",
    "tar xzf ../a.tgz",
    "tar -xf ../a.tar -C sub",
    "tar tf ../a.tar",
    "cp ../sibling/x .",
    "cp -r src sub",
    "cp /etc/hosts hosts",
    "install -m 755 a sub/a",
    "ln -s ../sibling x",
    "tee log",
    "echo a | tee -a log",
    "sed -i s/a/b/ src/a.txt",
    "sed -i '/foo/d' src/a.txt",
    "sed -i -e '/foo/d' src/a.txt",
    "sed s/a/b/ /etc/hosts",
    "sed -n '/foo/p' /etc/hosts",
    "perl -pi -e 's/a/b/' src/a.txt",
    "gzip -dc ../f.gz",
    "curl -o x http://a",
    "curl -O http://a",
    "curl -s http://a -o /dev/null",
    "wget -O - http://a",
    "sort -o x a",
    "bash -c 'rm -rf build'",
    "bash -c 'cd src && rm -rf build'",
    "sudo apt-get install x",
    "env FOO=1 rm -rf build",
    'x=build; rm -rf "$x"',
    'x="a.o b.o"; rm -f $x',
    'rm -f "dist/$name-$(date +%F).tgz"',
    'rm -rf "$BUILD_DIR"',
    "mkdir -p ~/x",
    "touch ../y",
    "ls /",
    "find / -name x",
    "unlink f",
    "rm -f f",
    "rm out",
    "rm -rf node_modules && npm ci",
    "mkdir -p build && cd build && cmake .. && make",
    "cd /tmp/x && rm -rf y",
    "cat ../f | head",
    "python3 -c 'print(1)'",
    "git commit -am x > /dev/null",
    "git -C ../sibling status",
    "ssh host ls",
    "rm -rf 'a b' \"c d\"",
    "rm -- -x",
    "rm -rf sub/./../src",
    "git worktree add ../x",
    "docker run --rm alpine ls",
    'x=$(git describe); rm "dist/$x.tgz"',
    "exec 3>&1",
    "cmd 2>&1 | tee -a build.log",
    "echo $((1+2)) > n",
    "curl -s http://a | tar xz -C sub",
    "rm -f ${f%.c}.o",
    'for f in *.c; do gcc -o "${f%.c}" "$f"; done',
    "[ -d build ] && rm -rf build",
    "rm -rf ./*",
    "unzip -o a.zip",
    "unzip a.zip -d sub",
    "patch -p1 < ../a.patch",
)


@for_each("command", DESTROYING)
def test_what_destroys_beyond_the_workspace_is_asked_about(
    judge: Callable[[str], Decision], command: str
) -> None:
    decision = judge(command)
    assert decision.outcome is ASK, decision.reason
    assert "would allow this, but" in decision.reason


@for_each("command", HARMLESS)
def test_what_stays_inside_the_workspace_runs(
    judge: Callable[[str], Decision], command: str
) -> None:
    decision = judge(command)
    assert decision.outcome is ALLOW, decision.reason


@for_each(("command", "asks"), destruction())
def test_a_line_of_the_corpus_is_asked_about_when_it_may_destroy_beyond_the_workspace(
    judge: Callable[[str], Decision], command: str, asks: bool
) -> None:
    decision = judge(command)
    assert decision.outcome is (ASK if asks else ALLOW), decision.reason


@for_each(
    "command",
    ("rm -rf {0}*", "rm -rf {0}?", "mv {0}* /tmp/x", "x={0}*; rm -rf $x", "chmod -R 0 {0}[e]"),
)
def test_a_glob_in_a_temporary_directory_that_matches_the_workspace_is_asked_about(
    command: str,
) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        workspace = Path(f"{folder}-workspace")
        workspace.mkdir()
        try:
            context = PolicyContext(surroundings=Surroundings(workspace, trusted=True))
            line = command.format(str(workspace)[:-1])
            call = PolicyCall(names=(SHELL,), args={"command": line})
            assert decide(call, BLANKET, context).outcome is ASK
            call = PolicyCall(names=(SHELL,), args={"command": f"rm -rf {folder}/x*"})
            assert decide(call, BLANKET, context).outcome is ALLOW
        finally:
            workspace.rmdir()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("rm -rf ../sibling", "rm removes or overwrites ../sibling, outside the workspace"),
        ("rm -rf $(cat list)", "rm removes or overwrites $(cat list), which is only known when it"),
        ("source f; rm x", "rm removes or overwrites x, in a directory that is only known when it"),
        ("echo x > ~/notes", "> writes to ~/notes, outside the workspace"),
        ("find .. -name x | xargs rm", "rm removes what it reads the names of"),
        ("mkfs.ext4 /dev/sdb", "changes more than files of the workspace"),
    ],
)
def test_the_reason_names_what_is_destroyed(
    judge: Callable[[str], Decision], command: str, reason: str
) -> None:
    assert reason in judge(command).reason


def test_a_variable_of_the_environment_has_its_value(
    judge: Callable[[str], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOP", "/srv/other")
    assert judge('rm -rf "$TOP"').outcome is ASK
    assert judge('rm -rf "$TOP"/build').outcome is ASK
    monkeypatch.setenv("TOP", "sub")
    assert judge('rm -rf "$TOP"/build').outcome is ALLOW


def test_without_facts_about_the_workspace_only_what_stays_below_runs() -> None:
    def decide_command(command: str) -> Decision:
        return decide(
            PolicyCall(names=(SHELL,), args={"command": command}), BLANKET, PolicyContext()
        )

    assert decide_command("rm -rf build").outcome is ALLOW
    assert decide_command("rm -rf ../build").outcome is ASK


BASH = shutil.which("bash") or ""
PROGRAMS = ("env", "nice", "xargs", "find", "bash", "cat", "dirname", "basename", "ls", "mktemp")
PIECES = st.sampled_from(
    [
        *("..", ".", "sub", "src", "build", "sibling", "away", "out", "~", "~/work", "$HOME", "$PWD"),
        *('"$PWD"', "${HOME}", '"$X"', "$X", "${X:-..}", "$OLDPWD", "{sub,..}", "{..,src}", "*", "s*"),
        *("o?t", ".*", "$(pwd)", '"$(dirname "$PWD")"', "`pwd`", "'..'", '".."', "\\.\\.", "$V", '"$V"'),
        *("$(cat list)", "${V%/*}", "${V##*/}", "$(basename ..)", "[.][.]", "$1", "~+", "~-", "./", "-x"),
        *("${PWD%/*}", "$(echo ..)", "{1..2}", "a.txt", "f", "home", "/", "$((1+1))", "'$HOME'", "x{,y}"),
    ]
)  # fmt: skip
PATHS = st.lists(PIECES, min_size=1, max_size=4).map("/".join) | st.lists(
    PIECES, min_size=2, max_size=3
).map("".join)
LINES = st.sampled_from(
    [
        *("rm -rf {}", "rm {} sub", "rm -- {}", "cd sub && rm -rf {}", "cd ..; rm -rf {}", "(cd ..; rm {})"),
        *("bash -c 'cd ..; rm {}'", "env -C .. rm {}", "V={}; rm -rf $V", 'V={}; rm -rf "$V"/x', "env rm {}"),
        *("for i in {} src; do rm $i; done", 'for i in {}; do rm "$i/x"; done', "echo {} | xargs rm"),
        *("find {} -maxdepth 1 -exec rm {{}} +", "find {} -maxdepth 1 | xargs rm", "ls {} | xargs -n 1 rm", "V=..; rm {}"),
        *("export V={}; rm $V", "V=..\nrm {}", "cd {} && rm x", "cd {}; rm -rf *", "rm $(ls {})", "V=src; rm {}"),
        *("set -- {}; rm $1", "f() {{ rm {}; }}; f ..", "read V <<< {}; rm $V", "pushd .. >/dev/null; rm {}"),
        *("cd -P out; rm {}", "bash -c 'rm {}' _ ..", "bash <<< 'rm {}'", "echo 'rm {}' | bash", "cat list | xargs rm"),
        *("eval 'cd ..'; rm {}", "CDPATH=..; cd sibling; rm {}", "for i in 1 2; do rm {}; cd ..; done"),
        *("f() {{ rm {}; }}; cd ..; f", ": ${{V:={}}}; rm $V", "time cd ..; rm {}", "IFS=s; V={}; rm $V"),
        *("declare -n V=HOME; rm $V/{}", "echo {}; rm $_", "if cd ..; then rm {}; fi"),
        *("shopt -s expand_aliases\nalias x=rm\nx {}", "trap 'rm {}' EXIT; cd ..", ". ./move; rm {}"),
        *("cd src; cd ..; rm {}", "if rm {}; then :; fi", "V=$(pwd); rm $V/{}", "X=..; rm {}", "rm {} > /dev/null"),
    ]
)  # fmt: skip


@pytest.mark.skipif(
    not BASH or not all(map(shutil.which, PROGRAMS)), reason="bash shows what a line does"
)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(LINES, PATHS)
def test_a_line_that_bash_lets_remove_something_beyond_the_workspace_is_asked_about(
    judge: Callable[[str], Decision], tmp_path: Path, line: str, path: str
) -> None:
    command = line.format(path)
    removed = removed_by(tmp_path, command)
    outside = [each for each in removed if not f"{each}/".startswith(f"{tmp_path}/workspace/")]
    if any(not each.startswith(("/tmp/tmp.", "/dev/null")) for each in outside):
        assert judge(command).outcome is ASK, (command, outside)


def removed_by(folder: Path, command: str) -> list[str]:
    """The real paths that bash gives to `rm` for a command; that one only writes them down."""
    programs, log = folder / "bin", folder / "log"
    if not programs.exists():
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).symlink_to(shutil.which(name) or "")
        (programs / "rm").write_text(
            f'#!{BASH}\nprintf "%s\\0" "$PWD" "$@" END >> {log}\n', encoding="utf-8"
        )
        (programs / "rm").chmod(0o755)
        (folder / "workspace" / "move").write_text("cd ..\n", encoding="utf-8")
        (folder / "workspace" / "list").write_text("../sibling\n", encoding="utf-8")
    log.write_bytes(b"")
    environ = {"PATH": str(programs), "HOME": str(folder / "home")}
    run_silently(command, environ, folder / "workspace")
    found: list[str] = []
    for call in log.read_bytes().decode("utf-8", "surrogateescape").split("\0END\0"):
        place, *operands = call.split("\0")
        ended = operands.index("--") if "--" in operands else len(operands)
        options = {each for each in operands[:ended] if each[:1] == "-"} | {"--"}
        for operand in (each for each in operands if each not in options):
            whole = os.path.join(place, operand)
            above, _, last = whole.rstrip("/").rpartition("/")
            entry = last not in {"", ".", ".."} and whole[-1] != "/"
            whole = os.path.join(os.path.realpath(above or "/"), last) if entry else whole
            found.append(whole if entry else os.path.realpath(whole))
    return found


def test_the_judge_sees_what_is_removed(judge: Callable[[str], Decision], tmp_path: Path) -> None:
    assert removed_by(tmp_path, "cd sub; rm ../../sibling") == [str(tmp_path / "sibling")]
    assert judge("rm sub").outcome is ALLOW
