"""Files of custom commands and their names."""

import os
from pathlib import Path

import pytest

from alhena.commands import CommandFolder, CustomCommands
from alhena.errors import InputError


def written(folder: Path, name: str, content: str | bytes = 'prompt = "p"') -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def of(name: str, folder: Path, *, follows: bool = False) -> CommandFolder:
    return CommandFolder(name=name, folder=folder, follows=follows)


def test_names_come_from_paths(tmp_path: Path) -> None:
    for name in ("a.toml", "git/commit.toml", "b c\x1b.toml", f"{'x' * 60}.toml", "no.txt"):
        written(tmp_path, name)
    found = CustomCommands([of("user", tmp_path)])
    assert list(found.files) == ["a", "b_c_", "git:commit", "x" * 47 + "..."]


def test_of_one_name_the_stronger_source_has_it_and_the_others_are_prefixed(tmp_path: Path) -> None:
    sources = [of(name, tmp_path / name) for name in ("workspace", "user", "ext")]
    for source in sources:
        written(source.folder, "a.toml")
        written(source.folder, "help.toml")
    found = CustomCommands(sources, {"help"})
    assert found.find("help") is None
    assert [each for each in found.files if "a" in each.split(".")] == ["a", "ext.a", "user.a"]
    for name, source in [("a", 0), ("workspace.a", 0), ("user.a", 1), ("ext.a", 2), ("ext:a", 2)]:
        file = found.find(name)
        assert file is not None
        assert file.source == sources[source]
    assert len(found.problems) == 5


def test_two_files_of_one_name_give_one_command_and_a_problem(tmp_path: Path) -> None:
    written(tmp_path, "a b.toml")
    other = written(tmp_path, "a_b.toml")
    found = CustomCommands([of("user", tmp_path)])
    assert list(found.files) == ["a_b"]
    assert str(other) in found.problems[0]


def test_links_are_followed_for_the_user_and_not_out_of_a_project(tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles"
    written(elsewhere, "deep/b.toml")
    target = written(elsewhere, "a.toml")
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "a.toml").symlink_to(target)
    (folder / "more").symlink_to(elsewhere)
    (folder / "loop").symlink_to(folder)
    assert list(CustomCommands([of("user", folder, follows=True)]).files) == [
        "a",
        "more:a",
        "more:deep:b",
    ]
    found = CustomCommands([of("workspace", folder)])
    assert not found.files
    assert len(found.problems) == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('prompt = "a"\nx = \ny = 1', "line 2"),
        (b'prompt = "a"\n\xff', "not valid UTF-8 (at line 2)"),
        ('description = "d"', "The 'prompt' field is required"),
        ("prompt = 3", "The 'prompt' field is required"),
        ('prompt = "p"\ndescription = 3', "'description'"),
        ('prompt = "!{"', "Unclosed injection starting at index 0 ('!{')"),
        (b"#" * 1_000_001, "limit"),
    ],
)
def test_a_broken_file_is_named_with_its_problem_and_the_others_work(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    path = written(tmp_path, "bad.toml", content)
    good_text = '\ufeffprompt = "p"\ndescription = "says \\u001b[31mp"'
    written(tmp_path, "good.toml", good_text)
    found = CustomCommands([of("user", tmp_path)])
    bad, good = found.find("bad"), found.find("good")
    assert bad is not None
    assert good is not None
    with pytest.raises(InputError) as caught:
        found.read(bad)
    assert told in caught.value.message
    assert str(path) in caught.value.message
    assert told.split("(", 1)[0].strip() in found.describe_command(bad)
    assert "\x1b" not in found.describe_command(good)
    assert "says" in found.describe_command(good)


def test_a_pipe_is_no_command_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    found = CustomCommands([of("user", tmp_path)])
    assert found.describe_command(found.files["a"]).startswith("broken: ")
