import json
import os
from pathlib import Path

import pytest

from alhena.config.effective_settings import folder_trust
from alhena.errors import ConfigError


def write_trust_levels(home: Path, **levels: str) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    file = home / ".gemini" / "trustedFolders.json"
    file.write_text(json.dumps(levels), encoding="utf-8")


def is_trusted(folder: Path, **environ: str) -> bool:
    return folder_trust(folder, {**os.environ, **environ}).trusted


def test_a_folder_nobody_has_spoken_of_is_not_trusted(project: Path) -> None:
    found = folder_trust(project, os.environ)
    assert (found.trusted, found.known) == (False, False)
    assert str(project) in found.reason


def test_variables_come_before_the_flag_and_the_flag_before_the_setting(project: Path) -> None:
    def ask(**environ: str) -> tuple[bool, bool, bool]:
        variables = {**os.environ, **environ}
        return (
            folder_trust(project, variables).trusted,
            folder_trust(project, variables, skip=True).trusted,
            folder_trust(project, variables, enabled=False).trusted,
        )

    assert ask() == (False, True, True)
    assert ask(GEMINI_CLI_TRUST_WORKSPACE="true") == (True, True, True)
    assert ask(GEMINI_CLI_TRUST_WORKSPACE="false") == (False, False, False)
    assert ask(GEMINI_CLI_TRUST_WORKSPACE="1") == (False, True, True)
    restricted = ask(GEMINI_RESTRICTED_MODE="true", GEMINI_CLI_TRUST_WORKSPACE="true")
    assert restricted == (False, False, False)


def test_the_longest_path_of_the_list_that_holds_the_folder_decides(
    home: Path, project: Path
) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    write_trust_levels(home, **{str(project): "TRUST_FOLDER"})
    assert is_trusted(project)
    assert is_trusted(inner)
    assert not is_trusted(project.parent)
    write_trust_levels(home, **{str(project): "TRUST_FOLDER", str(project / "a"): "DO_NOT_TRUST"})
    assert (is_trusted(project), is_trusted(inner)) == (True, False)
    write_trust_levels(
        home, **{str(project / "a" / "b"): "TRUST_PARENT", str(project): "DO_NOT_TRUST"}
    )
    assert (is_trusted(project), is_trusted(project / "a"), is_trusted(inner)) == (
        False,
        True,
        True,
    )


def test_of_one_place_spoken_of_twice_distrust_counts(home: Path, project: Path) -> None:
    (project / "a").mkdir()
    write_trust_levels(home, **{str(project / "a"): "TRUST_PARENT", str(project): "DO_NOT_TRUST"})
    assert not is_trusted(project)


def test_a_path_that_only_begins_alike_is_another_folder(home: Path, project: Path) -> None:
    sibling = project.with_name("project-two")
    sibling.mkdir()
    write_trust_levels(home, **{str(project): "TRUST_FOLDER"})
    assert not is_trusted(sibling)


def test_links_are_followed_on_both_sides(home: Path, project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "link").symlink_to(outside)
    write_trust_levels(home, **{str(project): "TRUST_FOLDER"})
    assert not is_trusted(project / "link")
    (tmp_path / "named").symlink_to(outside)
    write_trust_levels(home, **{str(tmp_path / "named"): "TRUST_FOLDER"})
    assert is_trusted(outside)


def test_a_relative_path_trusts_nothing(home: Path, project: Path) -> None:
    write_trust_levels(home, **{".": "TRUST_FOLDER", "": "TRUST_FOLDER", "~": "TRUST_FOLDER"})
    assert not is_trusted(project)


def test_the_list_can_be_elsewhere_and_hold_comments(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(f'{{ // mine\n "{project}": "TRUST_FOLDER", }}', encoding="utf-8")
    assert is_trusted(project, GEMINI_CLI_TRUSTED_FOLDERS_PATH=str(file))
    file.write_text(" \n", encoding="utf-8")
    assert not is_trusted(project, GEMINI_CLI_TRUSTED_FOLDERS_PATH=str(file))


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"/": "YES"}', b'{"/": 1}', b'"\xff"', b"[" * 100_000]
)
def test_a_list_that_cannot_be_used_is_an_error_that_names_it(home: Path, text: bytes) -> None:
    (home / ".gemini").mkdir()
    file = home / ".gemini" / "trustedFolders.json"
    file.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        folder_trust(home, os.environ)
    assert str(file) in str(caught.value)
    assert "DO_NOT_TRUST" in str(caught.value)
    assert folder_trust(home, {**os.environ, "GEMINI_CLI_TRUST_WORKSPACE": "true"}).trusted


def test_a_list_that_is_no_file_is_an_error_and_does_not_block(home: Path) -> None:
    (home / ".gemini").mkdir()
    os.mkfifo(home / ".gemini" / "trustedFolders.json")
    with pytest.raises(ConfigError, match="regular file"):
        folder_trust(home, os.environ)


def test_a_folder_is_the_same_one_under_another_name(home: Path, project: Path) -> None:
    """In a case-insensitive file system two paths can name one folder. Here a link makes the two
    names, which are compared before links are followed."""
    named = project.with_name("PROJECT")
    named.symlink_to(project)
    (project / "inner").mkdir()
    write_trust_levels(home, **{str(named): "DO_NOT_TRUST", str(project.parent): "TRUST_FOLDER"})
    assert not is_trusted(project)
    assert not is_trusted(project / "inner")
    assert is_trusted(project.parent)


def test_a_folder_is_known_by_what_it_is(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = project.with_name("other")
    for folder in (project / "inner", other):
        folder.mkdir()
    write_trust_levels(home, **{str(project): "TRUST_FOLDER"})
    monkeypatch.setattr(Path, "is_relative_to", lambda *_paths: False)
    assert is_trusted(project)
    assert is_trusted(project / "inner")
    assert not is_trusted(other)
    write_trust_levels(home, **{str(project / "none"): "TRUST_FOLDER"})
    assert not is_trusted(project / "inner")
