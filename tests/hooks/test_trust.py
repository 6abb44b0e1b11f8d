import json
import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config.extension_manifest import Manifest
from alhena.config.extensions import Extension
from alhena.config.settings import Settings, settings_of
from alhena.errors import ConfigError
from alhena.hooks.gather import GatheredHooks, HooksRequest, HookState, gather_hooks, open_hooks
from alhena.hooks.model import HookEvent, HookSource
from alhena.hooks.running import HookSurroundings
from alhena.hooks.trust import fingerprint, trust, trusted_fingerprints
from tests.hooks.kit import hook, surroundings

DOCUMENT: dict[str, Any] = {
    "hooks": {
        "BeforeTool": [
            {"matcher": "edit", "hooks": [{"type": "command", "command": "bash check.sh"}]}
        ]
    }
}


def gather(project: Path, home: Path, **fields: Any) -> GatheredHooks:
    given: dict[str, Any] = {
        "cwd": project,
        "environ": {"HOME": str(home), "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        "settings": Settings(),
    }
    return gather_hooks(HooksRequest(**given | fields))


@pytest.fixture
def project_with_hook(project: Path) -> Path:
    (project / ".gemini").mkdir()
    path = project / ".gemini" / "settings.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    (project / "check.sh").write_text("true", encoding="utf-8")
    return path


def accept(project: Path, home: Path) -> None:
    found = gather(project, home)
    trust(
        home / ".gemini" / "trusted_hooks.json",
        str(project),
        [entry.hook.fingerprint for entry in found.entries],
    )


def test_a_fingerprint_changes_with_whatever_a_hook_is(project: Path):
    (project / "check.sh").write_text("true", encoding="utf-8")
    base = hook("bash check.sh", name="n")

    def print_of(
        matcher: str = "m", event: HookEvent = HookEvent.BEFORE_TOOL, **change: Any
    ) -> str:
        fields = {"command": base.command, "name": base.name} | change
        return fingerprint(event, matcher, hook(**fields), str(project))

    first = print_of()
    assert first == print_of()
    others = {
        print_of("other"),
        print_of(event=HookEvent.AFTER_TOOL),
        print_of(command="bash check.sh -x"),
        print_of(name="o"),
        print_of(env={"A": "1"}),
        print_of(timeout_ms=1),
    }
    assert len(others | {first}) == 7
    (project / "check.sh").write_text("false", encoding="utf-8")
    assert print_of() != first


def test_a_file_that_it_writes_and_what_is_outside_of_the_project_are_not(project: Path):
    command = "date >>log.txt; cat /etc/hostname ../outside"
    before = fingerprint(HookEvent.BEFORE_TOOL, "", hook(command), str(project))
    (project / "log.txt").write_text("one", encoding="utf-8")
    (project.parent / "outside").write_text("two", encoding="utf-8")
    assert fingerprint(HookEvent.BEFORE_TOOL, "", hook(command), str(project)) == before


@pytest.mark.requirement("HOOK-04")
def test_a_projects_hook_runs_once_it_was_accepted_and_until_it_changes(
    project: Path, home: Path, project_with_hook: Path
):
    found = gather(project, home)
    assert [entry.state for entry in found.entries] == [HookState.UNTRUSTED]
    assert found.groups() == ()
    assert found.warnings == (
        "hooks: 1 of this project is not trusted and will not run; see `alhena hooks trust`.",
    )
    accept(project, home)
    found = gather(project, home)
    assert [entry.state for entry in found.entries] == [HookState.ENABLED]
    assert len(found.groups()) == 1
    (project / "check.sh").write_text("rm -rf ~", encoding="utf-8")
    assert [entry.state for entry in gather(project, home).entries] == [HookState.UNTRUSTED]


@pytest.mark.requirement("HOOK-04")
def test_with_folder_trust_off_a_projects_hooks_run_and_one_warning_says_so(
    project: Path, home: Path, project_with_hook: Path
):
    document = {"security": {"folderTrust": {"enabled": False}}}
    given = {"environ": {"HOME": str(home)}, "settings": settings_of(document, "u")}
    found = gather(project, home, **given)
    assert [entry.state for entry in found.entries] == [HookState.ENABLED]
    assert len(found.groups()) == 1
    (warning,) = found.warnings
    assert "run without being asked about, because security.folderTrust.enabled is" in warning
    restricted = {"HOME": str(home), "GEMINI_RESTRICTED_MODE": "true"}
    assert gather(project, home, **given | {"environ": restricted}).entries == ()
    project_with_hook.write_text("{}", encoding="utf-8")
    assert gather(project, home, **given).warnings == ()


@pytest.mark.usefixtures("project_with_hook")
def test_of_a_folder_that_is_not_trusted_nothing_is_read(project: Path, home: Path):
    accept(project, home)
    found = gather(project, home, environ={"HOME": str(home)})
    assert found.entries == ()
    assert "is not read: the folder is not trusted" in found.notes[0]
    os.remove(project / ".gemini" / "settings.json")
    os.mkfifo(project / ".gemini" / "settings.json")  # whoever opened it would wait
    assert gather(project, home, environ={"HOME": str(home)}).entries == ()


def test_trust_is_for_one_project_and_what_others_wrote_is_kept(project: Path, home: Path):
    path = home / ".gemini" / "trusted_hooks.json"
    path.parent.mkdir()
    root = str(project)
    path.write_text(json.dumps({"/other": ["n:c"], root: ["n:c", "sha256:old"]}), encoding="utf-8")
    trust(path, root, ["sha256:b", "sha256:a"])
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "/other": ["n:c"],
        root: ["n:c", "sha256:a", "sha256:b"],
    }
    assert trusted_fingerprints(path, root) == {"sha256:a", "sha256:b"}
    assert trusted_fingerprints(path, "/other") == frozenset()


def test_a_new_list_is_for_the_user_alone(project: Path, home: Path):
    path = home / ".gemini" / "trusted_hooks.json"
    trust(path, str(project), ["sha256:a"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["trusted_hooks.json"]


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 1}', '{"a": [1]}', "\udcff"])
def test_a_list_that_cannot_be_used_ends_it_with_the_place(project: Path, home: Path, text: str):
    path = home / "list.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ConfigError, match=r"list\.json"):
        trusted_fingerprints(path, str(project))
    with pytest.raises(ConfigError, match=r"list\.json"):
        trust(path, str(project), [])
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_what_the_user_turns_off_is_off_for_extensions_but_not_for_the_program(
    project: Path, home: Path
):
    entry = {"hooks": {"BeforeTool": [{"hooks": [{"command": "c", "name": "n"}]}]}}
    folder = home / "x"
    (folder / "hooks").mkdir(parents=True)
    (folder / "hooks" / "hooks.json").write_text(json.dumps(entry))
    manifest = Manifest(name="x", version="1")
    extension = Extension(
        manifest=manifest, home=folder, folder=folder, installation=None, environ={}
    )
    for config in ({"enabled": False}, {"disabled": ["n"]}, {"disabled": ["c"]}):
        settings = settings_of(entry | {"hooksConfig": config}, "u")
        found = gather(project, home, settings=settings, extensions=(extension,), program=entry)
        assert {each.hook.source: each.state for each in found.entries} == {
            HookSource.RUNTIME: HookState.ENABLED,
            HookSource.USER: HookState.DISABLED,
            HookSource.EXTENSION: HookState.DISABLED,
        }


def test_a_project_turns_off_only_its_own(project: Path, home: Path, project_with_hook: Path):
    project_with_hook.write_text(
        json.dumps(DOCUMENT | {"hooksConfig": {"enabled": False, "disabled": ["mine"]}}),
        encoding="utf-8",
    )
    mine = {"hooks": {"AfterTool": [{"hooks": [{"command": "c", "name": "mine"}]}]}}
    found = gather(project, home, settings=settings_of(mine, "u"))
    assert {each.hook.source: each.state for each in found.entries} == {
        HookSource.USER: HookState.ENABLED,
        HookSource.PROJECT: HookState.DISABLED,
    }


def test_the_home_directory_has_no_hooks_of_a_project(home: Path):
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    assert gather(home, home).entries == ()


def test_settings_of_a_project_that_are_no_json_are_a_warning(
    project: Path, home: Path, project_with_hook: Path
):
    project_with_hook.write_text("{", encoding="utf-8")
    (warning,) = gather(project, home).warnings
    assert str(project_with_hook) in warning


def test_a_hook_that_was_to_block_and_cannot_be_read_ends_the_run(project: Path, home: Path):
    bad = {"hooks": {"BeforeTool": [{"hooks": [{"command": [], "onFailure": "block"}]}]}}
    found = gather(project, home, settings=settings_of(bad, "u"))
    around: HookSurroundings = surroundings()
    with pytest.raises(ConfigError, match=r"hooks\.BeforeTool") as caught:
        open_hooks(found, around, lambda _event: None, lambda _name: False)
    assert caught.value.exit_code == 52
