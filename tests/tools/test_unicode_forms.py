"""Names and texts that are canonically equal are found, and keep the form that they have."""

from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.unicode_forms import find_equal
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, WriteFile
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.builtin.search_file_content import SearchFileContent
from tests.tools.files import call, text_of

FORMS = [("NFC", "NFD"), ("NFD", "NFC")]
NAME = "d\u00e9j\u00e0/caf\u00e9 \ud55c\uad6d.txt"
TEXT = "un caf\u00e9, s'il vous pla\u00eet\nun th\u00e9\n\ud55c\uad6d\uc5b4\n"


@pytest.fixture(params=FORMS)
def forms(request: pytest.FixtureRequest, project: Path) -> tuple[str, str]:
    """The form on disk, and the form that a model uses."""
    on_disk, asked = request.param
    path = project / normalize(on_disk, NAME)
    path.parent.mkdir()
    path.write_text(normalize(on_disk, TEXT), encoding="utf-8")
    return on_disk, asked


@pytest.mark.requirement("WORLD-02")
async def test_files_are_read_listed_and_found_by_either_form(
    project: Path, forms: tuple[str, str]
) -> None:
    on_disk, asked = forms
    workspace = Workspace(project)
    name, real = normalize(asked, NAME), str(project / normalize(on_disk, NAME))
    assert "vous pla" in text_of(await call(ReadFile(workspace), absolute_path=name))
    assert real in text_of(await call(ReadManyFiles(workspace), paths=[name]))
    wild = normalize(asked, "d\u00e9*/caf\u00e9*")
    assert real in text_of(await call(ReadManyFiles(workspace), paths=[wild]))
    for pattern in (name, wild, f"**/{name.rpartition('/')[2]}"):
        assert real in text_of(await call(Glob(workspace), pattern=pattern)), pattern
    listed = text_of(await call(ListDirectory(workspace), path=name.partition("/")[0]))
    assert real.rpartition("/")[2] in listed


async def test_lines_are_searched_in_either_form(project: Path, forms: tuple[str, str]) -> None:
    on_disk, asked = forms
    tool = SearchFileContent(Workspace(project))
    folder = normalize(asked, "d\u00e9j\u00e0")
    for pattern, line in (
        ("caf\u00e9", 1), ("pla[\u00ee\u00ef]t$", 1), ("^un th\u00e9$", 2), ("\uad6d", 3), ("TH\u00c9", 2)
    ):  # fmt: skip
        text = text_of(await call(tool, pattern=normalize(asked, pattern), path=folder))
        assert f"L{line}: {normalize(on_disk, TEXT).splitlines()[line - 1]}" in text, pattern
    include = normalize(asked, "caf\u00e9*.txt")
    assert "L2: " in text_of(await call(tool, pattern="un th", include=include))


@pytest.mark.requirement("WORLD-02")
async def test_an_edit_keeps_the_form_of_the_file(project: Path, forms: tuple[str, str]) -> None:
    on_disk, asked = forms
    result = await call(
        Replace(Workspace(project)),
        file_path=normalize(asked, NAME),
        old_string=normalize(asked, "un caf\u00e9, s'il"),
        new_string=normalize(asked, "deux caf\u00e9s, s'il"),
    )
    assert result.error is None
    written = (project / normalize(on_disk, NAME)).read_text(encoding="utf-8")
    assert written == normalize(on_disk, TEXT.replace("un caf\u00e9,", "deux caf\u00e9s,"))
    assert len(list(project.iterdir())) == 1


async def test_two_equal_places_are_two(project: Path) -> None:
    both = normalize("NFC", "caf\u00e9 a\n") + normalize("NFD", "caf\u00e9 b\n") * 2
    (project / "a.txt").write_text(both, encoding="utf-8")
    tool = Replace(Workspace(project))
    old = normalize("NFD", "caf\u00e9 b")
    result = await call(tool, file_path="a.txt", old_string=normalize("NFC", old), new_string="x")
    assert result.error is not None
    exact = normalize("NFC", "caf\u00e9 a")
    result = await call(tool, file_path="a.txt", old_string=exact, new_string="x")
    assert result.error is None
    assert (project / "a.txt").read_text(encoding="utf-8") == "x\n" + f"{old}\n" * 2


@pytest.mark.requirement("WORLD-02")
async def test_a_written_file_is_the_one_that_is_there(
    project: Path, forms: tuple[str, str]
) -> None:
    on_disk, asked = forms
    tool = WriteFile(Workspace(project))
    assert (await call(tool, file_path=normalize(asked, NAME), content="new\n")).error is None
    (folder,) = project.iterdir()
    (file,) = folder.iterdir()
    assert file == project / normalize(on_disk, NAME)
    assert file.read_text(encoding="utf-8") == "new\n"
    beside = normalize(asked, "d\u00e9j\u00e0/\u00e9.txt")
    assert (await call(tool, file_path=beside, content="x")).error is None
    assert len(list(project.iterdir())) == 1


async def test_of_two_names_the_exact_one_is_meant(project: Path) -> None:
    for form in ("NFC", "NFD"):
        (project / normalize(form, "\u00e9.txt")).write_text(form, encoding="utf-8")
    tool = ReadFile(Workspace(project))
    for form in ("NFC", "NFD"):
        name = normalize(form, "\u00e9.txt")
        assert form in text_of(await call(tool, absolute_path=name))


CLUSTERS = st.lists(
    st.sampled_from(
        ["a", "e\u0301", "\u00e9", "\ud55c", "q\u0323\u0307", "q\u0307\u0323", "\n", "\u212b"]
    ),
    max_size=8,
)


@given(CLUSTERS, CLUSTERS.filter(bool), CLUSTERS, st.sampled_from(["NFC", "NFD"]))
def test_what_is_equal_is_found_whole(
    before: list[str], wanted: list[str], after: list[str], form: str
) -> None:
    text = "".join((*before, *wanted, *after))
    sought = normalize(form, "".join(wanted))
    spans = find_equal(text, sought, 100)
    for start, end in spans:
        assert normalize("NFC", text[start:end]) == normalize("NFC", sought)
    if not text.isascii() or not sought.isascii():
        assert spans
