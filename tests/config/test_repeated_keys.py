"""A key that appears twice in a file of settings: the last one counts, and that is told."""

from pathlib import Path

import pytest

from tests.config.places import opened, user, workspace

MANY = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11"


@pytest.mark.parametrize("comment", ["", "// both\n"])
def test_a_key_that_stands_twice_is_a_warning_with_both_lines(
    home: Path, project: Path, comment: str
) -> None:
    file = user(
        home,
        f'{{\n"tools": {{\n"exclude": ["glob"],\n"sandbox": true,\n"exclude": []\n}}}}{comment}\n',
    )
    place = opened(project)
    assert place.settings.tools.exclude == ()
    (warning,) = place.warnings
    assert warning == (
        f"{file}:5: tools.exclude appears there more than once: line 5 counts, and not line 3. "
        "Remove what is too much."
    )


def test_a_server_that_stands_twice_is_a_warning(home: Path, project: Path) -> None:
    file = workspace(
        project, '{"mcpServers": {\n"s": {"command": "x"},\n"s": {"command": "y"},\n"s": {}}}'
    )
    (warning,) = opened(project).warnings
    assert warning == (
        f"{file}:4: mcpServers.s appears there more than once: line 4 counts, and not lines 2, 3. "
        "Remove what is too much."
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"ui": 1, "ui": 2}', "1: ui appears there more than once: the last one on line 1 counts"),
        (
            '{"ui": 1,\n"ui": 2, "ui": 3}',
            "2: ui appears there more than once: the last one on line 2 counts",
        ),
        (
            '{"ui": 1, "ui": 2,\n"ui": 3}',
            "2: ui appears there more than once: line 2 counts, and not line 1",
        ),
        (
            "{" + ",".join(f'\n"ui": {n}' for n in range(99)) + "}",
            f"100: ui appears there more than once: line 100 counts, and not lines {MANY}, …",
        ),
    ],
    ids=["one line", "the last two", "the first two", "many lines"],
)
def test_which_of_them_counts_can_be_told_wherever_they_stand(
    home: Path, project: Path, text: str, told: str
) -> None:
    file = user(home, text.replace("ui", "odd"))
    warnings = [each for each in opened(project).warnings if "more than once" in each]
    assert warnings == [f"{file}:{told.replace('ui', 'odd')}. Remove what is too much."]


@pytest.mark.parametrize(
    "text",
    [
        '{"model": {"name": "a\\":b"}, "tools": {"exclude": ["x", ":", "\\"y\\":"]}}',
        '{"ui": {"a": {"x": 1}, "b": {"x": 1}}, "list": [{"x": 1}, {"x": 1}]}',
        '{"ui": {}, /* "ui": 1 */ "url": "http://x/"}',
    ],
)
def test_what_only_looks_so_is_none(home: Path, project: Path, text: str) -> None:
    user(home, text)
    assert not any("more than once" in each for each in opened(project).warnings)


def test_a_file_of_nothing_else_is_told_of_in_a_few_lines(home: Path, project: Path) -> None:
    user(home, "{" + ", ".join(f'"k{n}": 1, "k{n}": 2' for n in range(5_000)) + "}")
    assert sum("more than once" in each for each in opened(project).warnings) == 10
