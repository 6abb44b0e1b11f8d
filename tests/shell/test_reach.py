"""Commands inside a command: no program that runs is missed."""

import pytest

from alhena.shell.parse.model import Effect, Part, Redirection, Word, WordKind
from alhena.shell.reach import MAX_COMMANDS, MAX_GUESSES, reach
from tests.shell.parts import complete, part, reaches, texts
from tests.support.each import for_each

SURE = [
    *("rm x", "/bin/rm x", "\\rm x", "r''m x", '"rm" x', "A=1 rm x", ">f rm x"),
    *("env rm x", "env -i A=1 rm x", "env -u A rm x", "env -S 'rm x'", "env -iS 'rm x'"),
    *("/usr/bin/env -C /tmp rm x", "env - rm x", "env A='1 2' -- rm x", "genv rm x"),
    *("sudo rm x", "sudo -u bob rm x", "sudo --user bob rm x", "sudo -n -- rm x", "sudo A=1 rm x"),
    *("sudo -iu bob rm x", "doas -u bob rm x", "pkexec rm x", "pkexec --user bob rm x"),
    *("nohup rm x", "nice rm x", "nice -n 5 rm x", "nice -5 rm x", "ionice -c3 rm x"),
    *("timeout 5 rm x", "timeout -s KILL 5 rm x", "timeout --signal=KILL -k 1 5 rm x"),
    *("setsid rm x", "setsid --fork rm x", "stdbuf -oL rm x", "stdbuf -o L rm x", "time -p rm x"),
    *("command rm x", "command -p rm x", "builtin command rm x", "exec rm x", "exec -a ls rm x"),
    *("busybox rm x", "toybox rm x", "busybox sh -c 'rm x'", "chroot /x rm x", "flock f rm x"),
    *("setarch x86_64 rm x", "setarch -R rm x", "linux32 rm x", "setpriv --reuid 1 rm x"),
    *("prlimit --nofile=9 rm x", "taskset 1 rm x", "taskset -c 0 rm x", "chrt -f 9 rm x"),
    *("unbuffer rm x", "dbus-run-session -- rm x", "systemd-run --user -p A=1 rm x"),
    *("strace -f -o out rm x", "ltrace -S rm x", "unshare -r rm x", "nsenter -t 1 rm x"),
    *("start-stop-daemon --start --exec /bin/rm -- x", "start-stop-daemon -S -x rm -- x"),
    *("/lib64/ld-linux-x86-64.so.2 /bin/rm x", "ld.so --library-path a rm x", "coproc rm x", "entr rm x", "entr -s 'rm x'", "watch rm x"),
    *("watch -n 1 'ls; rm x'", "flock f -c 'rm x'", "script -c 'rm x' out", "su -c 'rm x' bob"),
    *("su - bob -c 'rm x'", "runuser -u bob -- rm x", "sg wheel -c 'rm x'", "sg wheel 'rm x'"),
    *("bash -c 'rm x'", 'sh -c "rm x"', "bash -xec 'ls; rm x'", "bash -o pipefail -c 'rm x'"),
    *("bash -euo pipefail -c 'rm x'", "zsh -c 'rm x'", "bash --norc -c 'rm x'", "sh -c -- 'rm x'"),
    *("eval rm x", "eval 'r''m x'", "eval 'ls;' 'rm x'", "trap 'rm x' EXIT", "eval -- rm x"),
    *("sudo env A=1 bash -c 'nice rm x'", "bash -c \"bash -c 'rm x'\"", "sh -c 'eval \"rm x\"'"),
    *("find . -exec rm x \\;", "find . -execdir rm x +", "find . -name a -ok rm x ';'"),
    *("find . -exec ls {} + -exec rm x \\;", "fd -x rm x", "fd . -X rm x", "fd --exec rm x"),
    *("uv run rm x", "uv run --with a -p 3.12 rm x", "poetry run rm x", "pipx run rm x"),
    *("npx rm x", "npx -y rm x", "npx -p a rm x", "npx -c 'rm x'", "npm exec rm x", "npm x -- rm x"),
    *("npm exec -c 'rm x'", "npm --prefix web exec rm x", "pnpm exec rm x", "pnpm dlx rm x"),
    *("yarn dlx rm x", "yarn exec rm x", "bunx rm x", "bun x rm x", "bundle exec rm x", "uvx rm x"),
    *("git bisect run rm x", "git -C . bisect run rm x", "git submodule foreach 'rm x'"),
    *("git submodule foreach --recursive rm x", "git rebase -x 'rm x' main", "hyperfine 'rm x'"),
    *("git rebase --exec='rm x' main", "git -c alias.y='!rm x' y", "git clone 'ext::rm x' y"),
    *("tar --to-command='rm x' -xf a", "tar xf a --checkpoint-action=exec='rm x'"),
    *("tar -I 'rm x' -xf a", "tar --use-compress-prog='rm x' -xf a", "sort --compress-prog 'rm x'"),
    *("rg --pre 'rm x' a", "man -P 'rm x' ls", "split --filter='rm x' f", "ssh -o ProxyCommand='rm x' h"),
    *("python -m rm x", "perf stat rm x", "ip netns exec a rm x", "git for-each-repo; rm x"),
]  # fmt: skip


@for_each("command", SURE)
def test_the_command_inside_is_found(command: str) -> None:
    found = texts(command)
    assert found & {"rm x", "/bin/rm x", "env rm x"} or any(t.startswith("rm x") for t in found)


ENDS_OPEN = [
    ("ls | xargs rm", "rm "),
    ("xargs -0 -n 1 -I% rm -f -- %", "rm -f -- "),
    ("ls | xargs -I{} sh -c 'rm {}'", "rm"),
    ("find . -exec sh -c 'rm {}' \\;", "rm"),
    ("find . -name a -exec rm {} +", "rm "),
    ("parallel rm {} ::: a b", "rm "),
    ("watch rm $X", "rm "),
    ('bash -c "rm $X"', "rm"),
    ('eval "rm $X"', "rm"),
    ("ssh host rm x", "rm x"),
    ("docker exec -it -u 0 c rm x", "rm x"),
    ("docker run --rm -v /:/h img rm x", "rm x"),
    ("docker compose exec web rm x", "rm x"),
    ("kubectl -n a exec pod -c b -- rm x", "rm x"),
    ("git -c core.pager='rm x' log", "rm x"),
    ("git config alias.x '!rm x'", "rm x"),
    ("GIT_SSH_COMMAND='rm x' git fetch", "rm x"),
    ("env PAGER='rm x' git log", "rm x"),
    ("LESSOPEN='|rm %s' less f", "rm %s"),
    ("make CC='rm x' all", "rm x"),
    ("sudo -u bob -- bash -c 'python3 -c \"rm\"'", "rm"),
    ("python3 -c \"import os; os.system('rm x')\"", "rm x"),
    ('python3.12 -Ic \'subprocess.run(["rm", "x"])\'', "rm x"),
    ("perl -ne 'system(qw(rm x))' f", "rm x"),
    ("perl -e 'exec \"rm x\"'", "rm x"),
    ("ruby -e '`rm x`'", "rm x"),
    ('node -e \'require("child_process").execSync("rm x")\'', "rm x"),
    ("node --eval='spawn(\"rm\")'", "rm"),
    ("awk 'BEGIN { system(\"rm x\") }'", "rm x"),
    ("awk '{ print | \"rm\" }' f", "rm"),
    ("vim -c '!rm x' f", "rm x"),
    ("vim '+!rm x' f", "rm x"),
    ("sed '1e rm x' f", "rm x"),
    ("gdb -ex '!rm x'", "rm x"),
    ("tmux new-session -d 'rm x'", "rm x"),
    ("test -v 'a[$(rm x)]'", "rm x"),
    ("php -r 'system(\"rm x\");'", "rm x"),
    ("python3 <<'E'\nimport os; os.system('rm x')\nE", "rm x"),
    ("env -S rm\\ x", "rm x"),
    ("python3 - <<'E'\nimport os; os.system('rm x')\nE", "rm x"),
    ("gdb --args rm x", "rm x"),
    ("emacs --batch --eval '(shell-command \"rm x\")'", "rm x"),
    ("less '+!rm x' f", "rm x"),
    ("cargo --config 'target.x.runner=\"rm x\"' run", "rm x"),
    ("go vet -vettool=rm", "rm"),
    ("expect -c 'spawn rm x'", "rm x"),
    ("sqlite3 a '.shell rm x'", "rm x"),
    ("ssh -t h sudo rm x", "rm x"),
    ("docker run --rm -it --name n img sh -c 'rm x'", "rm x"),
]


@for_each(("command", "beginning"), ENDS_OPEN)
def test_a_command_with_an_open_end_or_a_guess_is_found(command: str, beginning: str) -> None:
    found = texts(command) | texts(command, sure=False)
    assert any(text.startswith(beginning) for text in found)


HIDDEN = [
    *("$X x", "${X} x", "$(echo r)m x", "/bin/r? x", 'eval "$X"', 'bash -c "$X"', "bash", "sh -s"),
    *(". ./f", "source f", "alias ls=rm", "hash -p /bin/rm ls", "bash < f", "echo rm x | bash"),
    *("echo x | xargs $X", "bash -", "bash /dev/stdin", "python3", "echo x | python3", "env $X"),
    *("sudo $X rm x", "sudo -i", "sudo -s", "su", "chroot /x", "parallel", "xargs env", "xargs sh -c"),
    *("timeout $X rm x", "make -f -", "awk \"$X\"", "sed \"$X\" f", "sed s/a/b/e f", "sed '1e ls' f", "python3 $X", "trap \"$X\" EXIT"),
    *("find . -exec $X \\;", "xargs -I{} {} x", "bash <<< \"$X\"", "shopt -s expand_aliases"),
    *("at now", "git bisect run $X", "env -S 'rm\\_x'", "command $X"),
    *("BASH_ENV=x bash -c ls", "git --config-env=core.pager=X log", "sh -c '\"$@\"' _ rm x"),
]  # fmt: skip


@for_each("command", HIDDEN)
def test_where_a_command_may_hide_the_reach_is_not_complete(command: str) -> None:
    assert not complete(command)


IN_SIGHT = [
    *("ls", "ls -la $HOME", "echo rm", "git status", "git commit -m 'rm x'", "bash build.sh a"),
    *(
        "python3 script.py rm",
        "make test",
        "env",
        "env FOO=1 npm test",
        "command -v rm",
        "xargs ls",
    ),
    *("ls | xargs", "ls | xargs -I{} cp {} rm", "find . -name '*.py'", "find . -exec grep a {} +"),
    *("npm run build", "docker compose up -d", "sudo apt-get install git", "timeout 5 npm test"),
    *("sed -n 1,5p f", "awk '{print $1}' f", "tar xzf a.tgz", "ssh host", "bash --version"),
    *("bash -c 'ls; cat f'", "python3 --version", "python3 -m pytest -q", "trap - EXIT", "nice"),
]


@for_each("command", IN_SIGHT)
def test_an_everyday_command_hides_nothing(command: str) -> None:
    assert complete(command)
    assert not any(t == "rm" or t.startswith("rm ") for t in texts(command))


def test_the_part_itself_comes_first_and_says_what_ran_the_others() -> None:
    found = reach(part("sudo env A=1 bash -c 'rm x'")).commands
    assert [c.text for c in found] == [
        "sudo env A=1 bash -c rm x",
        "env A=1 bash -c rm x",
        "bash -c rm x",
        "rm x",
    ]
    assert [c.via for c in found] == ["", "sudo", "env", "bash -c"]
    assert [s.text for s in found[2].settings] == ["A=1"]
    assert reach(Part(text="A=1")).commands == ()


def test_the_same_shell_with_another_input_is_another_command() -> None:
    assert "rm x" in texts("bash <<< 'bash <<< \"rm x\"'")
    assert "rm x" in texts("bash <<'E'\nls\nbash <<'F'\nrm x\nF\nE")


def test_shell_input_is_read_for_code() -> None:
    body = Redirection("<<", Effect.NONE, "<<E", None, "ls\nrm x\n")
    shown = Part(text="bash <<E", words=(Word("bash"),), redirections=(body,))
    assert [c.text for c in reach(shown).commands] == ["bash", "ls", "rm x"]
    assert reach(shown).complete
    opened = Redirection("<", Effect.READ, "<f", Word("f"))
    assert not reach(Part(text="bash <f", words=(Word("bash"),), redirections=(opened,))).complete
    unknown = Redirection("<<<", Effect.NONE, '<<<"$X"', Word("", WordKind.EXPANSION), "")
    assert not reach(Part(text="sh", words=(Word("sh"),), redirections=(unknown,))).complete


ENDLESS = [
    "env " * 5000 + "rm x",
    "find . " + "-exec rm {} + " * 3000,
    "bash -c '" + "bash -c x; " * 3000 + "'",
    "python -c '" + "x y " * 10_000 + "'",
    "parallel ::: " + "'a b' " * 5000,
    "make " + "A='b c' " * 5000,
    "git " + "-c alias.a='!b' " * 3000 + "log",
    "eval " + "eval " * 3000 + "rm",
    "sudo " + "--x " * 10_000 + "rm",
]


@pytest.mark.parametrize("command", ENDLESS, ids=lambda text: ascii(text)[:20])
def test_the_reach_of_any_command_is_bounded(command: str) -> None:
    for found in reaches(command):
        assert len(found.commands) <= MAX_COMMANDS + MAX_GUESSES
    assert not complete(command)
