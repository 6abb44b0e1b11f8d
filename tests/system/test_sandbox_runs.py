"""Abilities of commands inside each sandbox mechanism that works on this machine."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alhena.system.errors import SandboxError
from alhena.system.sandbox.layout import Mechanism, Profile
from alhena.system.sandbox.sandbox import Sandbox
from tests.system.sandboxing import (
    inside,
    mechanisms,
    needs_bwrap,
    needs_landlock,
    open_test_sandbox,
)

Open = Callable[..., Sandbox]


@pytest.fixture(params=mechanisms())
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    made: Mechanism = request.param
    return made


@pytest.fixture
def open_runs(mechanism: Mechanism) -> Iterator[Open]:
    """Opens sandboxes and closes them behind the test."""
    made: list[Sandbox] = []

    def opening(*roots: Path, **wish: Any) -> Sandbox:
        made.append(open_test_sandbox(mechanism, *roots, **wish))
        return made[-1]

    yield opening
    for each in made:
        each.close()


@pytest.fixture
def repository(project: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "src").mkdir()
    (project / "top.txt").write_text("old\n", encoding="utf-8")
    return project


def written_names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.mark.requirement("CLI-04")
def test_the_workspace_and_a_private_temporary_directory_are_writable(
    open_runs: Open, repository: Path
):
    sandbox = open_runs()
    ran = inside(
        sandbox,
        "echo new > src/new.txt && mkdir src/deep && mv src/new.txt src/deep/ && "
        "echo changed > top.txt && echo kept > $TMPDIR/kept",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (repository / "src/deep/new.txt").read_text(encoding="utf-8") == "new\n"
    assert (repository / "top.txt").read_text(encoding="utf-8") == "changed\n"
    assert inside(sandbox, "cat $TMPDIR/kept").stdout == "kept\n"


@pytest.mark.requirement("CLI-04")
def test_nothing_else_can_be_written(open_runs: Open, tmp_path: Path, home: Path):
    (tmp_path / "beside.txt").write_text("old", encoding="utf-8")
    (home / ".bashrc").write_text("old", encoding="utf-8")
    before = written_names(tmp_path)
    places = [str(tmp_path / "beside.txt"), str(home / ".bashrc"), str(home / ".profile")]
    places += [str(tmp_path / "new"), "/etc/alhena", "/usr/alhena", "/var/alhena", "/sys/alhena"]
    sandbox = open_runs()
    for place in places:
        inside(sandbox, f"echo owned > {place}; rm {place}; mkdir {place}")
        assert not os.path.isdir(place)
    assert inside(sandbox, "rm -f ~/.bashrc; : > ~/.bashrc; truncate -s0 ~/.bashrc").returncode
    sandbox.close()
    assert written_names(tmp_path) == before
    assert (tmp_path / "beside.txt").read_text(encoding="utf-8") == "old"
    assert (home / ".bashrc").read_text(encoding="utf-8") == "old"


@pytest.mark.requirement("CLI-04")
def test_nothing_is_left_in_shared_memory(open_runs: Open, tmp_path: Path):
    place = Path("/dev/shm") / f"alhena-{os.getpid()}-{tmp_path.name}"
    inside(open_runs(), f"echo x > {place}; mkdir {place}.d")
    assert not place.exists()
    assert not place.with_name(f"{place.name}.d").exists()


@pytest.mark.requirement("CLI-04")
def test_read_only_leaves_the_workspace_as_it_is(open_runs: Open, repository: Path):
    before = written_names(repository)
    sandbox = open_runs(profile=Profile.READ_ONLY)
    ran = inside(
        sandbox,
        "cat top.txt; echo x > top.txt; touch src/new; rm -r src; mkdir .gemini; "
        "echo temporary > $TMPDIR/a && cat $TMPDIR/a",
    )
    assert ran.stdout == "old\ntemporary\n"
    assert (repository / "top.txt").read_text(encoding="utf-8") == "old\n"
    assert written_names(repository) == before


GUARDED = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/commondir",
    ".git/config.worktree",
    ".git/modules/lib/config",
    ".git/worktrees/tree/config.worktree",
    ".gemini/settings.json",
    ".gemini/policies/all.toml",
    ".vscode/tasks.json",
    ".claude/settings.json",
]


@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize("name", GUARDED)
def test_configuration_cannot_be_written_even_where_it_is_absent(
    open_runs: Open, repository: Path, name: str
):
    before = (repository / ".git/config").read_bytes()
    names = written_names(repository)
    sandbox = open_runs()
    path = Path(name)
    ran = inside(sandbox, f"mkdir -p {path.parent}; echo owned > {path}")
    assert ran.returncode != 0
    sandbox.close()
    assert written_names(repository) == names
    assert (repository / ".git/config").read_bytes() == before


@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize(
    "trick",
    [
        "mv .git .git2; mkdir .git; git init -q .; echo owned > .git/hooks/pre-commit",
        "rm -rf .git/hooks; mkdir .git/hooks; echo owned > .git/hooks/pre-commit",
        "mv .git/hooks .git/h; mkdir .git/hooks; echo owned > .git/hooks/pre-commit",
        "rm -rf .gemini; mkdir .gemini; echo owned > .gemini/settings.json",
        "rmdir .gemini; ln -s src .gemini; echo owned > src/settings.json; cat .gemini/settings.json",
        "git config core.fsmonitor ./owned",
        "ln .git/config src/config; echo owned >> src/config",
        "umount .git/config; mount -o remount,rw,bind .git/config; echo owned >> .git/config",
        "unshare -Urm sh -c 'umount .git/config; echo owned >> .git/config'",
    ],
)
def test_what_protects_configuration_cannot_be_moved_out_of_the_way(
    open_runs: Open, repository: Path, trick: str
):
    config = (repository / ".git/config").read_bytes()
    hooks = written_names(repository / ".git/hooks")
    sandbox = open_runs()
    inside(sandbox, trick)
    sandbox.close()
    assert (repository / ".git/config").read_bytes() == config
    assert written_names(repository / ".git/hooks") == hooks
    assert not os.path.lexists(repository / ".gemini")


@pytest.mark.requirement("CLI-04")
def test_a_symbolic_link_leads_to_no_writing_outside(
    open_runs: Open, repository: Path, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("old", encoding="utf-8")
    (repository / "src/link").symlink_to(outside)
    sandbox = open_runs()
    ran = inside(
        sandbox,
        f"echo a > src/link/new; echo b > src/link/file; ln -s {outside} src/l; echo c > src/l/n; "
        f"ln {outside}/file src/hard && echo d > src/hard",
    )
    assert ran.returncode != 0
    assert written_names(outside) == {"file"}
    assert (outside / "file").read_text(encoding="utf-8") == "old"


@pytest.mark.requirement("CLI-04")
def test_credentials_cannot_be_read(open_runs: Open, home: Path):
    secrets = [".ssh/id_rsa", ".aws/credentials", ".config/gcloud/token", ".netrc", ".npmrc"]
    secrets += [".gemini/oauth_creds.json", ".docker/config.json", ".bash_history"]
    for name in secrets:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("SECRET", encoding="utf-8")
    (home / ".gemini/settings.json").write_text("{}", encoding="utf-8")
    sandbox = open_runs()
    for name in secrets:
        ran = inside(sandbox, f"cat ~/{name}; cp ~/{name} $TMPDIR/x; cat $TMPDIR/x")
        assert "SECRET" not in ran.stdout, name
    assert inside(sandbox, "cat ~/.gemini/settings.json").stdout == "{}"


def test_a_secret_behind_a_link_is_hidden_where_it_is(open_runs: Open, home: Path):
    (home / "dotfiles").mkdir()
    (home / "dotfiles/key").write_text("SECRET", encoding="utf-8")
    (home / ".ssh").symlink_to(home / "dotfiles")
    assert "SECRET" not in inside(open_runs(), "cat ~/dotfiles/key ~/.ssh/key").stdout


def test_an_allowed_path_is_writable_and_no_secret_any_more(open_runs: Open, home: Path):
    for name in (".cache", ".aws", ".ssh"):
        (home / name).mkdir()
        (home / name / "file").write_text(name, encoding="utf-8")
    sandbox = open_runs(allowed_paths=("~/.cache", "~/.aws"))
    ran = inside(sandbox, "cat ~/.cache/file ~/.aws/file ~/.ssh/file; echo new > ~/.cache/file")
    assert ran.stdout == ".cache.aws"
    assert (home / ".cache/file").read_text(encoding="utf-8") == "new\n"


@pytest.mark.requirement("CLI-04")
def test_sockets_of_other_programs_cannot_be_reached(
    open_runs: Open, project: Path, monkeypatch: pytest.MonkeyPatch
):
    path = str(project / "engine.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        ran = inside(open_runs(), f'python3 -c "{CONNECT_UNIX.format(path)}"')
    assert "connected" not in ran.stdout
    assert ran.returncode != 0


CONNECT_UNIX = "import socket; socket.socket(socket.AF_UNIX).connect('{}'); print('connected')"
CONNECT_TCP = "import socket; socket.create_connection(('127.0.0.1', {}), 3); print('connected')"
SEND_UDP = "import socket as s; s.socket(2, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {}))"


@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_there_unless_it_was_cut(open_runs: Open, network: bool):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = inside(open_runs(network=network), f'python3 -c "{CONNECT_TCP.format(port)}"')
    assert (ran.stdout == "connected\n") is network, ran.stderr


@pytest.mark.requirement("CLI-04")
def test_without_network_no_datagram_goes_out(open_runs: Open):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        inside(open_runs(network=False), f'python3 -c "{SEND_UDP.format(server.getsockname()[1])}"')
        with pytest.raises(BlockingIOError):
            server.recv(1)


@pytest.mark.requirement("CLI-04")
def test_the_agent_itself_cannot_be_read_or_signalled(open_runs: Open):
    sandbox = open_runs()
    me = os.getpid()
    ran = inside(sandbox, f"kill -9 {me}; cat /proc/{me}/environ /proc/{me}/mem | head -c 9")
    assert ran.stdout == ""


def test_no_privileges_are_left_or_can_be_gained(open_runs: Open):
    ran = inside(open_runs(), "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status")
    assert ran.stdout.split() == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]


@pytest.mark.parametrize("code", [0, 1, 3, 124, 255])
def test_exit_codes_pass(open_runs: Open, code: int):
    assert inside(open_runs(), f"exit {code}").returncode == code


def test_signals_have_their_usual_effect_inside(open_runs: Open):
    ran = inside(open_runs(), "yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert ran.stdout == f"y\n{128 + signal.SIGPIPE}\n"


def test_the_environment_is_the_one_given_and_says_that_it_is_a_sandbox(
    open_runs: Open, mechanism: Mechanism
):
    ran = inside(open_runs(), "echo $GIVEN; echo $SANDBOX; test -d $TMPDIR && pwd", GIVEN="a b")
    assert ran.stdout == f"a b\nalhena-{mechanism}\n{Path.cwd()}\n"


def test_names_that_are_no_text_work(open_runs: Open, tmp_path: Path):
    odd = tmp_path / os.fsdecode(b"odd \xff'\"$(x)\n dir")
    (odd / "sub").mkdir(parents=True)
    sandbox = open_runs(odd)
    assert inside(sandbox, "echo new > sub/new && mkdir .gemini").returncode == 1
    sandbox.close()
    assert written_names(odd) == {"sub", "sub/new"}


def test_a_protected_symbolic_link_is_refused_and_nothing_starts(open_runs: Open, repository: Path):
    sandbox = open_runs()
    (repository / ".gemini").symlink_to("src")
    with pytest.raises(SandboxError, match=r"\.gemini is a symbolic link"):
        inside(sandbox, "touch src/started")
    assert not (repository / "src/started").exists()


def test_a_workspace_that_holds_the_home_directory_is_refused(open_runs: Open, tmp_path: Path):
    with pytest.raises(SandboxError, match="cannot keep the home directory") as caught:
        open_runs(tmp_path)
    assert caught.value.exit_code == 44
    ran = inside(open_runs(tmp_path, profile=Profile.READ_ONLY), "ls; touch new")
    assert ran.stdout == "home\nproject\n"


def test_what_is_closed_leaves_nothing_behind(open_runs: Open, repository: Path, tmp_path: Path):
    before = written_names(repository)
    sandbox = open_runs()
    inside(sandbox, "touch $TMPDIR/a")
    temp = sandbox.layout.temp
    assert os.path.isdir(temp)
    sandbox.close()
    assert not os.path.lexists(temp)
    assert written_names(repository) == before
    assert inside(sandbox, "echo again > $TMPDIR/a && cat $TMPDIR/a").stdout == "again\n"
    sandbox.close()


def test_a_repository_cannot_be_begun_where_none_was(open_runs: Open, project: Path):
    sandbox = open_runs()
    for _ in range(2):  # the second command finds what the first one was kept from
        ran = inside(sandbox, "git init -q .; mkdir -p .git/hooks; touch .git/hooks/x .git/HEAD")
        assert ran.returncode != 0
    sandbox.close()
    assert written_names(project) == set()


@needs_bwrap
def test_git_works_as_usual_with_bwrap(repository: Path):
    sandbox = open_test_sandbox(Mechanism.BWRAP)
    commit = "git -c user.name=a -c user.email=b@c commit -qm first"
    ran = inside(sandbox, f"touch new && git add . && {commit} && git switch -qc other && git log")
    sandbox.close()
    assert ran.returncode == 0, ran.stderr
    assert "first" in ran.stdout
    status = subprocess.run(["git", "status", "-sb"], capture_output=True, check=True, text=True)
    assert status.stdout == "## other\n"


@pytest.mark.requirement("CLI-04")
def test_what_a_command_leaves_in_a_repository_makes_git_outside_run_nothing(
    open_runs: Open, repository: Path
):
    git = ("git", "-c", "safe.bareRepository=all")
    subprocess.run([*git, "config", "core.repositoryFormatVersion", "1"], check=True)
    subprocess.run([*git, "config", "extensions.worktreeConfig", "true"], check=True)
    evil = repository / "src/evil"
    evil.write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    evil.chmod(0o755)
    setting = f"[core]\n\tfsmonitor = {evil}\n"
    sandbox = open_runs()
    for name in ("config.worktree", "config", "commondir"):
        inside(sandbox, f"printf '%s' '{setting}' > .git/{name}; mv top.txt .git/{name}")
    inside(
        sandbox,
        "mkdir src/common; cp -r .git/* src/common; rm src/common/commondir; "
        f"printf '%s' '{setting}' >> src/common/config; echo ../src/common > .git/commondir",
    )
    sandbox.close()
    subprocess.run([*git, "status"], check=True, capture_output=True)
    assert not (repository / "ran").exists()
    (repository / ".git/config.worktree").write_text(setting, encoding="utf-8")
    subprocess.run([*git, "status"], check=True, capture_output=True)
    assert (repository / "ran").exists(), "it would have run"


@needs_bwrap
def test_a_workspace_inside_another_cannot_be_renamed_to_lose_its_protection(repository: Path):
    inner = repository / "deep/er/inner"
    (inner / ".git/hooks").mkdir(parents=True)
    sandbox = open_test_sandbox(Mechanism.BWRAP, repository, inner)
    for place in ("deep", "deep/er", "deep/er/inner", "deep/er/inner/.git"):
        ran = inside(
            sandbox,
            f"python3 -c \"import os; os.rename('{place}', 'elsewhere')\"; "
            "mkdir -p deep/er/inner/.git/hooks deep/er/inner/.vscode; "
            "touch deep/er/inner/.git/hooks/x deep/er/inner/.vscode/x",
        )
        assert "OSError: [Errno 16]" in ran.stderr or "OSError: [Errno 18]" in ran.stderr
    sandbox.close()
    assert written_names(repository / "deep") == {
        "er",
        "er/inner",
        "er/inner/.git",
        "er/inner/.git/hooks",
    }


@needs_landlock
def test_landlock_lets_nothing_new_be_made_beside_what_it_protects(repository: Path):
    sandbox = open_test_sandbox(Mechanism.LANDLOCK)
    assert "workspace's top directory" in sandbox.note
    ran = inside(sandbox, "touch new; mkdir dir; touch .git/index.lock; touch src/new")
    sandbox.close()
    assert ran.returncode == 0
    assert not (repository / "new").exists()
    assert (repository / "src/new").exists()


@needs_landlock
def test_landlock_governs_contents_of_files_outside_not_their_modes_and_times(tmp_path: Path):
    outside = tmp_path / "beside.txt"
    outside.write_text("old", encoding="utf-8")
    sandbox = open_test_sandbox(Mechanism.LANDLOCK)
    ran = inside(sandbox, f"chmod 600 {outside} && touch -d @1 {outside} && echo new > {outside}")
    sandbox.close()
    assert (outside.stat().st_mode & 0o777, outside.stat().st_mtime) == (0o600, 1)
    assert ran.returncode
    assert outside.read_text(encoding="utf-8") == "old"
