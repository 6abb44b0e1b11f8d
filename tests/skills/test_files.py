"""Files of skills: names, descriptions, and what is wrong with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import InputError
from alhena.skills.files import Skills, front_matter

GOOD = "---\nname: good\ndescription: does good\n---\nDo it.\n"


def written(folder: Path, name: str, content: str | bytes = GOOD) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_names_descriptions_and_instructions_are_read(tmp_path: Path) -> None:
    written(
        tmp_path, "a", "\ufeff---\nname: my skill: a/b\ndescription: >\n  one\n  two\n---\nDo it."
    )
    written(tmp_path, ".", GOOD.replace("\n", "\r\n"))
    found = Skills([("user", tmp_path)])
    assert {each.name: each.description for each in found.all.values()} == {
        "good": "does good",
        "my skill- a-b": "one two",
    }
    assert found.all["good"].instructions() == "Do it."
    assert not found.problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain words # comment", "plain words"),
        ("it's: fine", "it's: fine"),
        ('"a \\"b\\" \\u00e4"', 'a "b" ä'),
        ("'it''s'", "it's"),
        ("|\n  one\n  two", "one\ntwo"),
        ("one\n  two", "one two"),
        ("\n  two", "two"),
        ("", ""),
        ("Use when: a, b: c", "Use when: a, b: c"),
        ('"Quoted" words: and more', '"Quoted" words: and more'),
    ],
)
def test_texts_of_front_matter(text: str, value: str) -> None:
    assert front_matter(f"x:\n  - list\nkey: {text}\nother: y")["key"] == value


def test_lists_at_the_margin_belong_to_their_key() -> None:
    assert front_matter("name: x\nallowed-tools:\n- Read\n- Write\ndescription: y") == {
        "name": "x",
        "allowed-tools": "- Read - Write",
        "description": "y",
    }


@given(st.text())
def test_any_front_matter_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        found = front_matter(text)
    except InputError as error:
        refusal = error.message
    else:
        refusal = "at line"
        assert all(isinstance(each, str) for each in found.values())
    assert "at line" in refusal


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Do it.", "front matter"),
        ("---\nname: x\n---\n", "no description"),
        ("---\ndescription: x\n---\n", "no name"),
        ("---\nname: x\n: y\n---\n", "line 3"),
        ('---\nname: "x\n---\n', "line 2"),
        (b"---\nname: x\n\xff\n---\n", "not valid UTF-8 (at line 3)"),
        (b"#" * 1_000_001, "limit"),
    ],
)
def test_a_broken_skill_is_named_and_the_others_work(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    bad = written(tmp_path, "bad", content)
    written(tmp_path, "good")
    found = Skills([("user", tmp_path)])
    assert list(found.all) == ["good"]
    assert told in found.problems[0]
    assert str(bad) in found.problems[0]


def test_the_later_folder_has_a_name_and_disabled_skills_are_not_active(tmp_path: Path) -> None:
    written(tmp_path / "u", "good")
    other = written(tmp_path / "w", "good")
    folders = [("user", tmp_path / "u"), ("workspace", tmp_path / "w")]
    found = Skills(folders, ["GOOD"])
    assert (found.all["good"].path, found.active) == (other, {})
    assert "has the same name" in found.problems[0]
    assert "good" in Skills(folders).active


def test_links_lead_out_of_the_users_own_folder_only(tmp_path: Path) -> None:
    written(tmp_path / "elsewhere", "good")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "good").symlink_to(tmp_path / "elsewhere" / "good")
    found = Skills([("user", tmp_path / "skills")])
    assert found.all["good"].folder == tmp_path / "elsewhere" / "good"
    found = Skills([("workspace", tmp_path / "skills")])
    assert not found.all
    assert "link out of its folder" in found.problems[0]


@pytest.mark.parametrize(
    ("head", "described"),
    [
        ('name: x\ndescription: "broken', '"broken'),
        ("name: x\n: odd\ndescription: one\n  two", "one two"),
        ("  name: x\n  description: indented", "indented"),
        ("name:x\n{odd}\ndescription:  first\nnotes\n  more", "first"),
    ],
)
def test_front_matter_that_is_no_yaml_is_read_by_its_lines(
    tmp_path: Path, head: str, described: str
) -> None:
    written(tmp_path, "odd", f"---\n{head}\n---\nDo it.")
    found = Skills([("user", tmp_path)])
    assert found.problems == []
    assert found.all["x"].description == described
    assert found.all["x"].instructions() == "Do it."


def test_a_name_with_blanks_is_found_by_both_forms(tmp_path: Path) -> None:
    written(tmp_path, "one", "---\nname: My  Skill\ndescription: d\n---\nDo it.")
    found = Skills([("user", tmp_path)])
    assert list(found.all) == ["My  Skill"]
    for name in ("My  Skill", "My-Skill", "my skill"):
        assert found.find(name) is found.all["My  Skill"]
        assert Skills([("user", tmp_path)], [name]).active == {}
    assert found.find("MySkill") is None
    found.turn("my-skill", enabled=False)
    assert found.active == {}
