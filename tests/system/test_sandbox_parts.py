"""The parts of the sandbox that are functions of values, or that need no sandbox."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.system.errors import SandboxError
from alhena.system.sandbox.layout import (
    Filler,
    Layout,
    Look,
    Mechanism,
    PathType,
    Placeholders,
    Profile,
    Protected,
    SandboxRequest,
    protections,
)
from alhena.system.sandbox.opening import CommandEnvironment, layout_of, open_sandbox
from alhena.system.sandbox.sandbox import (
    Mount,
    Rank,
    Sandbox,
    bwrap_arguments,
    denied_line,
    mounts,
)
from tests.system.sandboxing import needs_bwrap, needs_landlock


def layout(*roots: str, **values: Any) -> Layout:
    given = {"profile": Profile.WORKSPACE_WRITE, "network": True, "homes": ("/home/u",)}
    given |= {"config_home": "/home/u/.gemini", "temp": "/t"}
    return Layout(roots=roots or ("/project",), **(given | values))


def standing(*directories: str, others: tuple[str, ...] = ()) -> Look:
    """A file system with these directories, and these files."""

    def look(path: str) -> PathType:
        if path in others:
            return PathType.OTHER
        return PathType.DIRECTORY if path in {"/tmp", "/run", *directories} else PathType.ABSENT

    return look


def mounts_of(given: Layout, look: Look) -> dict[str, Mount]:
    found = mounts(given, protections(given, look), look)
    assert [m.path.count("/") for m in found] == sorted(m.path.count("/") for m in found)
    return {mount.path: mount for mount in found}


def test_the_directories_that_lead_to_what_is_protected_are_mount_points_too():
    look = standing(
        "/project", "/project/.git", "/project/.git/hooks", others=("/project/.git/HEAD",)
    )
    found = mounts_of(layout(), look)
    assert found["/project"].rank is Rank.WRITABLE
    assert found["/project/.git"].rank is Rank.PIN
    assert not found["/project/.git/hooks"].writable


def test_a_pin_opens_nothing_that_is_protected():
    given = layout("/project", "/project/.vscode/a/b", allowed=())
    look = standing("/project", "/project/.vscode", "/project/.vscode/a", "/project/.vscode/a/b")
    found = mounts_of(given, look)
    assert not found["/project/.vscode"].writable
    assert "/project/.vscode/a" not in found
    assert found["/project/.vscode/a/b"].writable


def test_a_workspace_inside_the_agents_own_directory_is_not_writable():
    given = layout("/home/u/.gemini/tmp/x")
    found = mounts_of(given, standing("/home/u/.gemini/tmp/x", "/home/u/.gemini", "/home/u"))
    assert not found["/home/u/.gemini/tmp/x"].writable


def test_a_workspace_inside_a_hidden_directory_is_there_and_the_rest_is_not():
    given = layout("/home/u/.aws/x", hidden=("/home/u/.aws",))
    found = mounts_of(given, standing("/home/u/.aws", "/home/u/.aws/x", "/home/u"))
    assert found["/home/u/.aws"].source is None
    assert found["/home/u/.aws/x"].writable


def test_of_the_runtime_directory_nothing_is_kept_but_how_names_are_resolved():
    given = layout()
    look = standing("/project", others=("/run/docker.sock", "/run/systemd/resolve/resolv.conf"))
    found = mounts_of(given, look)
    assert found["/run"].source is None
    assert {path for path in found if path.startswith("/run/")} == {
        "/run/systemd/resolve/resolv.conf"
    }


def test_read_only_makes_nothing_writable_but_places_of_its_own():
    given = layout(profile=Profile.READ_ONLY, allowed=("/data",))
    look = standing("/project", "/project/.git", "/data", others=("/project/.git/HEAD",))
    found = mounts_of(given, look)
    assert {path for path, mount in found.items() if mount.writable} == {"/tmp", "/run"}
    assert found["/tmp"].source == "/t/tmp"


def test_the_arguments_cut_the_network_only_when_told_to():
    for network in (True, False):
        given = layout(network=network)
        words = bwrap_arguments("/bin/bwrap", given, (), "/project/sub")
        assert ("--unshare-net" in words) is not network
        assert words[-3:] == ["--chdir", "/project/sub", "--"]
        assert "--unshare-pid" in words
        assert "--new-session" not in words


def test_a_bare_repository_that_is_allowed_keeps_its_hooks_and_configuration():
    found = protections(layout("/project", allowed=("/srv/main/.git",)), standing())
    names = {item.path: item.filler for item in found}
    assert names["/srv/main/.git/hooks"] is Filler.DIRECTORY
    assert names["/srv/main/.git/commondir"] is Filler.SAME_DIRECTORY


@pytest.mark.parametrize("shares", ["objects", "commondir"])
def test_a_repository_of_any_name_keeps_what_makes_git_run_something(shares: str):
    top = "/srv/main/.git/worktrees/tree"
    look = standing(top, others=(f"{top}/HEAD", f"{top}/{shares}"))
    found = protections(layout("/project", allowed=(top,)), look)
    names = {item.path.removeprefix(top + "/") for item in found}
    assert names >= {"hooks", "config", "config.worktree", "commondir", "modules", "worktrees"}
    other = protections(layout("/project", allowed=(top,)), standing(top, others=(f"{top}/HEAD",)))
    assert f"{top}/commondir" not in {item.path for item in other}


def test_the_root_directory_is_no_workspace_to_write_in():
    wish = SandboxRequest(origin="a test")
    with pytest.raises(SandboxError, match="the workspace is /"):
        open_sandbox(wish, CommandEnvironment(("/",), {"HOME": "/nonexistent"}, "linux"))


# Opening


@pytest.mark.requirement("CLI-04")
def test_where_there_is_no_bubblewrap_it_is_named_with_what_to_install(tmp_path: Path):
    wish = SandboxRequest(origin="--sandbox", mechanism=Mechanism.BWRAP)
    around = CommandEnvironment(
        (str(tmp_path / "project"),), {"HOME": str(tmp_path / "home")}, "linux", ()
    )
    with pytest.raises(SandboxError) as caught:
        open_sandbox(wish, around)
    assert caught.value.exit_code == 44
    assert caught.value.message == (
        "--sandbox asks for a sandbox and none works here: bwrap: bubblewrap (bwrap) is not "
        "installed."
    )
    assert "apt install bubblewrap" in (caught.value.remedy or "")
    assert "tools.sandbox false" in (caught.value.remedy or "")


@pytest.mark.requirement("CLI-04")
def test_a_bubblewrap_that_fails_is_quoted_and_nothing_is_left(project: Path, home: Path):
    tools = home / "bin"
    tools.mkdir()
    broken = tools / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    wish = SandboxRequest(origin="--sandbox", mechanism=Mechanism.BWRAP)
    environ = {"HOME": str(home), "PATH": str(tools)}
    with pytest.raises(SandboxError, match="it does not work: bwrap: No permissions"):
        open_sandbox(wish, CommandEnvironment((str(project),), environ, "linux", ()))
    assert list(project.iterdir()) == []


def test_a_bubblewrap_of_the_workspace_is_never_used(project: Path, home: Path):
    fake = project / "bwrap"
    fake.write_text("#!/bin/sh\ntouch owned\n", encoding="utf-8")
    fake.chmod(0o755)
    (home / "bwrap").symlink_to(fake)
    wish = SandboxRequest(origin="--sandbox", mechanism=Mechanism.BWRAP)
    environ = {"HOME": str(home), "PATH": f"{project}:{home}:."}
    with pytest.raises(SandboxError, match="is not installed"):
        open_sandbox(wish, CommandEnvironment((str(project),), environ, "linux", ()))
    assert not (project / "owned").exists()


def test_a_system_without_a_sandbox_is_named(project: Path):
    with pytest.raises(SandboxError, match="there is none for darwin yet"):
        open_sandbox(
            SandboxRequest(origin="a test"),
            CommandEnvironment((str(project),), {"HOME": "/x"}, "darwin"),
        )


@needs_landlock
@pytest.mark.requirement("CLI-04")
def test_where_bubblewrap_is_missing_landlock_takes_its_place_and_says_so(project: Path):
    around = CommandEnvironment((str(project),), {"HOME": "/x"}, "linux", ())
    sandbox = open_sandbox(SandboxRequest(origin="-"), around)
    assert sandbox.mechanism is Mechanism.LANDLOCK
    assert "(bwrap: bubblewrap (bwrap) is not installed)" in sandbox.note
    read_only = SandboxRequest(origin="-", profile=Profile.READ_ONLY)
    assert open_sandbox(read_only, around).note == ""


def test_an_allowed_path_is_absolute_or_of_the_home_directory(home: Path):
    around = CommandEnvironment(("/project",), {"HOME": str(home)})
    found = layout_of(
        SandboxRequest(origin="-", allowed_paths=("~/.cache", "/data/../srv")), around
    )
    assert found.allowed == (str(home / ".cache"), "/srv")
    with pytest.raises(SandboxError, match="'cache' that the sandbox should allow is not absolute"):
        layout_of(SandboxRequest(origin="-", allowed_paths=("cache",)), around)


def test_the_agents_own_code_stays_as_it_is_inside_a_workspace():
    given = layout("/project", program=("/project/.venv", "/usr"))
    found = mounts_of(given, standing("/project", "/project/.venv", "/usr"))
    assert not found["/project/.venv"].writable
    assert "/usr" not in found


@needs_bwrap
def test_a_person_is_told_when_the_agent_would_load_what_commands_write(project: Path):
    def note(imports: tuple[str, ...]) -> str:
        around = CommandEnvironment(
            (str(project),), {"HOME": "/x"}, "linux", program=(f"{project}/venv",), imports=imports
        )
        return open_sandbox(SandboxRequest(origin="-", mechanism=Mechanism.BWRAP), around).note

    assert note((f"{project}/venv/lib", "/usr/lib")) == ""
    assert f"looks for Python modules in {project}/tools, where" in note((f"{project}/tools",))
    assert str(project) in note(("",))


def test_programs_of_the_agent_are_not_looked_for_where_commands_write(project: Path, home: Path):
    (home / "bin").symlink_to(project)
    given = layout(str(project))
    sandbox = Sandbox(Mechanism.BWRAP, "/usr/bin/bwrap", given)
    path = f"/usr/bin:{project}/bin:.::{home}/bin:/bin"
    assert sandbox.trusted_environment({"PATH": path, "A": "b"}) == {
        "PATH": "/usr/bin:/bin",
        "A": "b",
    }
    read_only = msgspec.structs.replace(given, profile=Profile.READ_ONLY)
    sandbox = Sandbox(Mechanism.BWRAP, "/usr/bin/bwrap", read_only)
    assert (
        sandbox.trusted_environment({"PATH": path})["PATH"]
        == f"/usr/bin:{project}/bin:{home}/bin:/bin"
    )


# Placeholders


def filling(path: Path, filler: Filler) -> Placeholders:
    held = Placeholders()
    held.fill([Protected(str(path), filler)])
    return held


@pytest.mark.parametrize("filler", list(Filler))
def test_the_last_session_takes_a_placeholder_away(project: Path, filler: Filler):
    path = project / "x"
    first, second = filling(path, filler), filling(path, filler)
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()


def test_what_a_killed_session_left_in_a_repository_is_taken_away(project: Path):
    (project / "commondir").write_text(".\n", encoding="utf-8")
    filling(project / "commondir", Filler.SAME_DIRECTORY).close()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("filler", [Filler.DIRECTORY, Filler.EMPTY_FILE])
def test_what_a_user_made_or_filled_stays(project: Path, filler: Filler):
    made, filled = project / "made", project / "filled"
    if filler is Filler.DIRECTORY:
        made.mkdir()
    else:
        made.touch()
    held = [filling(path, filler) for path in (made, filled)]
    if filler is Filler.DIRECTORY:
        (filled / "new").touch()
    else:
        filled.write_text("new", encoding="utf-8")
    for each in held:
        each.close()
    assert made.exists()
    assert filled.exists()


def test_a_placeholder_that_was_removed_is_made_again(project: Path):
    held = filling(project / "x", Filler.DIRECTORY)
    (project / "x").rmdir()
    held.fill([Protected(str(project / "x"), Filler.DIRECTORY)])
    assert (project / "x").is_dir()
    held.close()
    assert list(project.iterdir()) == []


def test_what_cannot_be_made_for_lack_of_a_parent_is_no_error(project: Path):
    filling(project / "absent/x", Filler.DIRECTORY).close()
    (project / "file").touch()
    filling(project / "file/x", Filler.EMPTY_FILE).close()
    assert [path.name for path in project.iterdir()] == ["file"]


# Refusals


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("a\ntouch: cannot touch 'x': Read-only file system\nb\n", True),
        ("npm error code EROFS", True),
        ("mv: cannot move '.git' to 'x': Device or resource busy", True),
        ("bwrap: Can't mkdir /x: No such file", True),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", True),
        ("3 tests failed", False),
        ("touch: cannot touch 'x': Permission denied", False),
        ("curl: (6) Could not resolve host: a.b", False),
        ("", False),
    ],
)
def test_a_refusal_is_known_by_what_programs_say_of_it(output: str, line: bool):
    found = denied_line(output, Mechanism.BWRAP, network=True)
    assert (found is not None) is line
    assert found is None or found in output


def test_what_counts_as_a_refusal_depends_on_the_sandbox():
    denied, unresolved = "x: Permission denied", "curl: (6) Could not resolve host: a.b"
    assert denied_line(denied, Mechanism.LANDLOCK, network=True) == denied
    assert denied_line(unresolved, Mechanism.BWRAP, network=False) == unresolved


def test_the_last_refusal_is_told_and_no_more_than_a_line_of_it():
    text = "a: Read-only file system\n" + "x" * 9_000 + ": Read-only file system\n"
    found = denied_line(text, Mechanism.BWRAP, network=True)
    assert found is not None
    assert found.startswith("xxx")
    assert len(found) == 160
