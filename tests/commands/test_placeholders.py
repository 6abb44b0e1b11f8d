"""`{{args}}` in the shell commands of templates, with bash as the judge."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alhena.commands import CommandFolder, CustomCommands
from alhena.commands.placeholders import check_placeholders, with_arguments
from alhena.errors import InputError
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S

BASH = shutil.which("bash") or ""

TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30
) | st.lists(
    st.sampled_from(
        [*("marker", "$(marker)", "`marker`", ";", "|", "&", "'", '"', "\\", "\n", " ", "$", "{", "}"),
        *("$x", "!", "#", "*", "~", "-e", "<", ">", "(", ")", "[", "]", "a[$(marker)]", "%s", "=", ":")]
    ),
    min_size=1,
    max_size=8,
).map("".join)  # fmt: skip

SHOWING = (
    "show {{args}}",
    'show "{{args}}"',
    "show '{{args}}'",
    'show "$(printf %sx {{args}})"',
    'show "$(printf %sx "{{args}}")"',
    "show \"$(printf %sx '{{args}}')\"",
    "if true; then show {{args}}; fi",
    "for i in {{args}}; do show \"$i\"; done",
    'x={{args}}; show "$x"',
    'x="{{args}}"; show "$x"',
    "case {{args}} in *) show {{args}};; esac",
    "(show {{args}})",
    "{ show {{args}}; }",
    "true && show {{args}} | cat",
    "! show {{args}}",
    "env A=1 show {{args}}",
    "ls | xargs -n 1 show {{args}}",
    "find . -maxdepth 0 -exec show {{args}} \\;",
    "bash -c 'show \"$1\"' _ {{args}}",
    "show {{args}} > out",
    "while show {{args}}; do break; done",
    "cat <(show {{args}})",
)  # fmt: skip
"""Commands that show the text, or the text and an `x` behind it, or after it more."""

ACCEPTED = (
    *SHOWING,
    "grep -rn {{args}} src | head -5",
    "git log --grep={{args}} -5",
    "git show {{args}} 2>/dev/null || echo none",
    "printf %s a{{args}}b",
    'printf %s "x $HOME {{args}} y"',
    "cat <<< {{args}}",
    "printf x > {{args}}",
    "cd {{args}} && ls",
    "[ -f {{args}} ]",
    '[ -n "{{args}}" ]',
    "test -f {{args}}",
    "sudo grep {{args}} f",
    "python3 x.py {{args}}",
    "python3 -c 'import sys; print(sys.argv)' {{args}}",
    "perl -e 'print @ARGV' -- {{args}}",
    "bash x.sh {{args}}",
    "awk '{print}' {{args}}",
    "sed -n 1p -- {{args}}",
    'node x.js "{{args}}"',
    'curl -s "https://x/{{args}}"',
    "echo '\\{{args}}'",
    "git switch -c {{args}}",
    "git commit -m {{args}}",
    'git commit -am "{{args}}"',
    "git checkout {{args}}",
    "git log {{args}}",
    "git diff {{args}}",
    "git fetch -- {{args}}",
    "git grep -e {{args}}",
    "git branch {{args}}",
    "rg -- {{args}}",
    "rg -e {{args}} src",
    "rg -n -- {{args}} src",
    "sort -- {{args}}",
    "sort -k {{args}} f",
    "tar -czf {{args}} src",
    "tar -xf {{args}}",
    "curl -o {{args}} https://x",
    "curl -d {{args}} https://x",
    "docker logs {{args}}",
    "docker build -t {{args}} .",
    "docker ps --filter name={{args}}",
    "pytest {{args}}",
    "pytest -k {{args}}",
    "npm test -- {{args}}",
    "npm run {{args}}",
    "go test {{args}}",
    "cargo test {{args}}",
    "make -j4 CFLAGS=-O2 x",
    "kubectl logs {{args}}",
    "kubectl get pods -n {{args}}",
    "echo {{args}} > notes.txt",
    "echo {{args}} >> log; git add log",
    "tee notes.txt <<< {{args}}",
    "./build.sh > log && ./run.sh {{args}}",
    "bash x.sh {{args}} > log",
    "python3 x.py {{args}} > out.json",
    "nc -z -- {{args}} 22",
    "find . -name {{args}}",
    "gh pr view {{args}}",
    "gh issue create --title {{args}}",
    "jq {{args}} f.json",
    "echo {{args}} | wc -c",
    "mkdir -p {{args}} && cd {{args}}",
    "rsync -a -- {{args}}/ out/",
    "prettier --check {{args}}",
    "eslint {{args}}",
    "git push -- origin {{args}}",
    "git merge {{args}}",
    "git cherry-pick {{args}}",
)

REFUSED = (
    "echo `printf %s {{args}}`",
    "echo \"`cat '{{args}}'`\"",
    "echo $(echo `{{args}}`)",
    "echo ${x:-{{args}}}",
    'echo "${x:-{{args}}}"',
    "echo ${{{args}}}",
    "echo ${{args}}",
    'echo "${{args}}"',
    "echo \\{{args}}",
    'echo "\\{{args}}"',
    'echo "a\\\\\\{{args}}"',
    "echo $(({{args}}))",
    "echo $((1 + x[{{args}}]))",
    "echo $[{{args}}]",
    "(( {{args}} ))",
    "let {{args}}",
    "let x={{args}}",
    "a[{{args}}]=1",
    "a=({{args}})",
    "echo ${a[{{args}}]}",
    "test -v {{args}}",
    "[ -v {{args}} ]",
    "[[ -v {{args}} ]]",
    "[[ a == {{args}} ]]",
    "[[ {{args}} -eq 1 ]]",
    "[ {{args}} -eq 1 ]",
    "[ {{args}} x ]",
    "test {{args}} a b",
    "test x {{args}}",
    "echo $'{{args}}'",
    'echo $"{{args}}"',
    "cat <<EOF\n{{args}}\nEOF",
    "cat <<'EOF'\n{{args}}\nEOF",
    "cat <<{{args}}\nx\n",
    "# {{args}}",
    "ls # {{args}}",
    "{{args}}",
    "{{args}} x",
    "x=1 {{args}} b",
    "{{args}}=x",
    "sudo {{args}}",
    "env {{args}}",
    "xargs {{args}}",
    "find . -exec {{args}} \\;",
    "exec {{args}}",
    "command {{args}}",
    "time {{args}}",
    "coproc {{args}}",
    "watch {{args}}",
    'watch "ls {{args}}"',
    "bash -c '{{args}}'",
    "bash -c 'echo {{args}}'",
    'bash -c "echo {{args}}"',
    "bash -c \"echo '{{args}}'\"",
    "bash -c {{args}}",
    "bash {{args}}",
    'nice bash -c "{{args}}"',
    'echo "$(bash -c "{{args}}")"',
    "eval {{args}}",
    'eval "echo {{args}}"',
    "trap {{args}} EXIT",
    "source {{args}}",
    ". {{args}}",
    "alias x={{args}}",
    "ssh host {{args}}",
    'ssh host "ls {{args}}"',
    'su -c "ls {{args}}"',
    'script -c "ls {{args}}"',
    "awk '{print \"{{args}}\"}'",
    "awk {{args}} f",
    'awk "/{{args}}/" f',
    'sudo awk "{{args}}"',
    "sed s/x/{{args}}/ f",
    "sed -n '/{{args}}/p' f",
    "sed -n 1p {{args}}",
    'sudo sed "{{args}}"',
    "python3 -c 'print(\"{{args}}\")'",
    "python3 {{args}}",
    "python3 -m {{args}}",
    "perl -e 'print' {{args}}",
    'node -e "{{args}}"',
    "echo {{args}} | bash",
    "echo {{args}} | sh -s",
    "echo {{args}} | python3",
    "echo {{args}} | xargs sh -c",
    'echo "{{args}}" | xargs -I{} sh -c {}',
    'echo "{{args}}" | sqlite3 db',
    "echo {{args}} | while read l; do $l; done",
    "tee >(sh) <<< {{args}}",
    "bash <<< {{args}}",
    'python3 <<< "{{args}}"',
    "at now <<< {{args}}",
    "psql -c \"select '{{args}}'\"",
    "sqlite3 db \"select '{{args}}'\"",
    "vim -c {{args}}",
    "parallel {{args}}",
    "parallel echo ::: {{args}}",
    "git -c alias.x='!{{args}}' x",
    'git rebase -x "{{args}}"',
    'tmux new "{{args}}"',
    'docker exec c sh -c "ls {{args}}"',
    'find . -name x -exec sh -c "ls {{args}}" \\;',
    "make X={{args}}",
    "export {{args}}",
    "export X={{args}}",
    "declare -i x={{args}}",
    "read {{args}}",
    "unset {{args}}",
    "printf {{args}}",
    'printf "{{args}}"',
    "printf -v {{args}} x",
    "mapfile {{args}}",
    'set -- {{args}}; eval "$1"',
    'x={{args}}; eval "$x"',
    "x={{args}}; $x",
    "x={{args}}; echo $((x))",
    'x={{args}}; bash -c "$x"',
    'x={{args}}; [ "$x" -eq 1 ]',
    'x={{args}}; echo "${!x}"',
    'x={{args}}; echo "${x@P}"',
    "PATH={{args}} ls",
    "BASH_ENV={{args}} bash -c ls",
    'for i in {{args}}; do eval "$i"; done',
    "for i in {{args}}; do $i; done",
    "for {{args}} in a; do :; done",
    "case x in {{args}}) ;; esac",
    'f() { eval "$1"; }; f {{args}}',
    "function {{args}} { :; }",
    "echo 'unclosed {{args}}",
    "git -c {{args}} status",
    "git -c core.pager={{args}} log",
    "git -c alias.x={{args}} x",
    "git {{args}}",
    "git fetch {{args}}",
    "git pull --upload-pack {{args}}",
    "git rebase -x {{args}} main",
    "git grep -O{{args}} x",
    "git difftool -x {{args}}",
    "git --exec-path={{args}} status",
    "ssh -o {{args}} h",
    "ssh -o{{args}} h",
    "ssh -oProxyCommand={{args}} h",
    "ssh {{args}}",
    "ssh -F {{args}} h",
    "scp -S {{args}} a b:",
    "rsync -e {{args}} a b",
    "rsync --rsh={{args}} a b",
    "socat - EXEC:{{args}}",
    'socat - SYSTEM:"ls {{args}}"',
    "socat {{args}} -",
    "nc -e {{args}} h 1",
    'nc -c "{{args}}" h 1',
    "ncat --sh-exec={{args}} h",
    "docker run --entrypoint {{args}} alpine",
    "docker run --entrypoint={{args}} alpine",
    "docker run alpine sh -c {{args}}",
    'kubectl exec p -- sh -c "{{args}}"',
    "kubectl run x --image y -- {{args}}",
    "echo {{args}} > x.sh; sh x.sh",
    "echo {{args}} > x.sh && ./x.sh",
    "echo {{args}} >> x.py; python3 x.py",
    "tee x.sh <<< {{args}}; bash x.sh",
    "echo {{args}} | tee x.sh; bash x.sh",
    "printf '%s' {{args}} > x.sh; . ./x.sh",
    "printf '%s' {{args}} > x.sh; source x.sh",
    'x={{args}}; echo "$x" > f; sh f',
    "{ echo {{args}}; } > x.sh; sh x.sh",
    "(echo {{args}}) > x.sh; sh x.sh",
    "echo {{args}} > Makefile; make",
    "echo {{args}} > x.sh; env bash x.sh",
    "dd of=x.sh <<< {{args}}; sh x.sh",
    "cp {{args}} x.sh; sh x.sh",
    "cat <<< {{args}} > x.sh; sh x.sh",
    "if echo {{args}} > x.sh; then sh x.sh; fi",
    "gcc -fplugin={{args}} a.c",
    "node -r {{args}} a.js",
    "make -f {{args}}",
    "make --eval {{args}}",
    "make --eval={{args}}",
    "tar --to-command={{args}} -xf a",
    "tar -I {{args}} -xf a",
    "tar {{args}}",
    "sort --compress-program={{args}} a",
    "sort {{args}}",
    "rg --pre {{args}} x",
    "rg {{args}}",
    "man -P {{args}} ls",
    "split --filter={{args}} f",
    "find . -exec {{args}} ;",
    "adb shell {{args}}",
    "wsl {{args}}",
    "wsl -e {{args}}",
    "vagrant ssh -c {{args}}",
    "gcloud compute ssh vm --command={{args}}",
    "nodemon --exec {{args}}",
    "watchexec {{args}}",
    "watchexec -- {{args}}",
    "concurrently {{args}}",
    "pm2 start {{args}}",
    "fly ssh console -C {{args}}",
    "gdb -ex {{args}}",
    "expect -c {{args}}",
    "make SHELL={{args}}",
    "just --command {{args}}",
    "crontab <<< {{args}}",
    "tmux send-keys {{args}} Enter",
    "screen -X stuff {{args}}",
    "mosh h -- {{args}}",
    "systemd-run {{args}}",
    "pytest -p {{args}}",
    "wget -e {{args}} x",
    "wget --use-askpass={{args}} x",
    "go vet -vettool={{args}}",
    "go test -exec {{args}} ./...",
    "cargo --config {{args}} build",
    "mysql -e {{args}}",
    "psql -c {{args}}",
    "sqlite3 db {{args}}",
    "jq -n {{args}} > x.sh; bash x.sh",
    "hyperfine {{args}}",
    "docker compose run --entrypoint {{args}} web",
    "flatpak run --command={{args}} app",
    "xterm -e {{args}}",
    "ssh h -- {{args}}",
    "sudo ssh -o {{args}} h",
    "env A=1 nc -e {{args}} h",
    "timeout 5 git -c {{args}} status",
    "npm exec -c {{args}}",
    "nix develop -c {{args}}",
    "git push origin {{args}}",
)


@for_each("command", ACCEPTED)
def test_a_command_that_takes_the_arguments_as_a_text_is_accepted(command: str) -> None:
    check_placeholders(command)


@for_each("command", REFUSED)
def test_a_command_that_could_take_the_arguments_for_more_than_a_text_is_refused(
    command: str,
) -> None:
    with pytest.raises(InputError, match="is unsafe at this place"):
        check_placeholders(command)


@pytest.mark.requirement("EXT-01")
@pytest.mark.skipif(not BASH, reason="bash is the judge")
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SHOWING), TEXTS)
@example("show {{args}}", "$(marker) `marker` \"'; marker #\\")
@example('show "{{args}}"', "\\$(marker)\n`marker`")
@example("show '{{args}}'", "'; marker; '")
def test_bash_passes_exactly_the_arguments_and_runs_none_of_them(
    tmp_path_factory: pytest.TempPathFactory, command: str, arguments: str
) -> None:
    folder = tmp_path_factory.mktemp("shown")
    shown = shown_by(folder, with_arguments(command, arguments))
    expected = arguments + "x" if "%sx" in command else arguments
    assert shown[:1] == [expected]
    assert not (folder / "marked").exists()


def shown_by(folder: Path, command: str) -> list[str]:
    """The first argument of each call of `show` when bash runs a command."""
    programs = folder / "bin"
    programs.mkdir()
    (folder / "work").mkdir()
    (folder / "work" / "file").touch()
    for name, body in (
        ("show", f"printf '%s\\0' \"$1\" >> {folder}/shown"),
        ("marker", f": > {folder}/marked"),
    ):
        (programs / name).write_text(f"#!{BASH}\n{body}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    subprocess.run(
        [BASH, "-c", command],
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        cwd=folder / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return (folder / "shown").read_bytes().decode("utf-8").split("\0")[:-1]


def test_an_unsafe_command_is_refused_when_its_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "find.toml").write_text(
        "prompt = \"!{bash -c 'grep {{args}} .'}\"\n", encoding="utf-8"
    )
    commands = CustomCommands([CommandFolder(name="user", folder=tmp_path)])
    file = commands.find("find")
    assert file is not None
    with pytest.raises(InputError) as refused:
        commands.read(file)
    assert str(tmp_path / "find.toml") in refused.value.message
    assert "in the script or the options of bash" in refused.value.message
    assert "./script.sh {{args}}" in (refused.value.remedy or "")


def test_arguments_with_a_nul_are_refused() -> None:
    with pytest.raises(InputError, match="NUL"):
        with_arguments("show {{args}}", "a\0b")


def test_no_arguments_leave_nothing_in_their_place() -> None:
    assert with_arguments("ls {{args}} x", "") == "ls  x"
