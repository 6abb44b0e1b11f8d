import os
import tomllib
from pathlib import Path

import pytest

import alhena
from alhena.tools.builtin.get_internal_docs import DOC_LIMIT, GetInternalDocs, docs_directory
from tests.tools.files import call, failure_type, text_of

ROOT = Path(alhena.__file__).parents[2]


@pytest.fixture
def docs(project: Path) -> Path:
    directory = project / "docs"
    (directory / "tools").mkdir(parents=True)
    (directory / "b.md").write_text("# B\ncaf\u00e9\n", encoding="utf-8")
    (directory / "tools" / "a.md").write_text("# A\n", encoding="utf-8")
    (directory / "picture.png").write_bytes(b"\x89PNG")
    (project / "secret.md").write_text("secret", encoding="utf-8")
    (directory / "link.md").symlink_to(project / "secret.md")
    os.mkfifo(directory / "fifo.md")
    return directory


@pytest.mark.requirement("TOOLS-20")
async def test_the_projects_own_documentation_is_listed_and_read() -> None:
    tool = GetInternalDocs()
    listed = text_of(await call(tool))
    assert listed.startswith("Available documentation files:\n\n- ")
    assert "- policy.md" in listed.splitlines()
    expected = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    for name in ("policy.md", "./policy.md", "policy"):
        assert text_of(await call(tool, path=name)) == expected


async def test_files_below_are_listed_by_their_paths(docs: Path) -> None:
    tool = GetInternalDocs(docs)
    assert text_of(await call(tool)) == (
        "Available documentation files:\n\n- b.md\n- fifo.md\n- tools/a.md"
    )
    assert text_of(await call(tool, path="")) == text_of(await call(tool))
    assert text_of(await call(tool, path="tools/a.md")) == "# A\n"
    assert text_of(await call(tool, path="tools\\..\\b.md")) == "# B\ncaf\u00e9\n"


@pytest.mark.parametrize(
    "path",
    ["../secret.md", "link.md", "/etc/passwd", "tools", "picture.png", "no.md", "a\0b", "x" * 9999],
)
async def test_what_is_not_in_the_list_is_never_read(docs: Path, path: str) -> None:
    result = await call(GetInternalDocs(docs), path=path)
    assert failure_type(result) == "file_not_found"
    assert "There are: b.md, fifo.md, tools/a.md." in text_of(result)
    assert len(text_of(result)) < 500


async def test_what_cannot_be_read_is_an_error(docs: Path) -> None:
    assert failure_type(await call(GetInternalDocs(docs), path="fifo.md")) == "not_a_regular_file"
    (docs / "b.md").write_bytes(b"x" * (DOC_LIMIT + 1))
    assert failure_type(await call(GetInternalDocs(docs), path="b.md")) == "file_too_large"
    missing = await call(GetInternalDocs(docs / "nothing"))
    assert failure_type(missing) == "file_not_found"


def test_the_documentation_is_found_in_the_package_and_in_a_checkout(project: Path) -> None:
    package = project / "src" / "alhena"
    package.mkdir(parents=True)
    assert docs_directory(package) == package / "docs"
    (project / "pyproject.toml").touch()
    assert docs_directory(package) == project / "docs"
    (package / "docs").mkdir()
    assert docs_directory(package) == package / "docs"


def test_the_wheel_and_the_source_archive_hold_the_documentation() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    targets = build["build"]["targets"]
    assert targets["wheel"]["force-include"] == {"docs": "alhena/docs"}
    assert "docs" in targets["sdist"]["include"]
