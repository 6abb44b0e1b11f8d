"""The pages of docs/ show real output: `console` blocks print what they say.

`python -m tests.test_pages [PAGE…]` writes into the pages what their commands print now.
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.pages import (
    DOCS,
    FENCE,
    ROOT,
    TITLE,
    mask_times,
    pages,
    run_page,
    shown_commands,
    write_page,
)

FOLDERS = ("tutorial", "howto", "concepts", "coming-from")


@pytest.mark.requirement("DOC-01")
@pytest.mark.timeout(180)  # a page runs many programs, one after the other
@pytest.mark.parametrize("name", pages())
def test_the_commands_of_a_page_print_what_it_says(name: str, tmp_path: Path) -> None:
    told = shown_commands(name)
    ran, failed = run_page(name, tmp_path)
    assert not failed, failed
    for each, now in zip(told, ran, strict=True):
        assert mask_times(each.printed) == mask_times(now.printed), each.text


def anchors(page: Path) -> set[str]:
    """Link targets of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_links_of_a_folder_lead_to_pages_and_its_index_has_all(folder: str) -> None:
    listed = set(
        re.findall(r"\]\(([\w.-]+\.md)\)", (DOCS / folder / "index.md").read_text("utf-8"))
    )
    assert listed == {path.name for path in (DOCS / folder).glob("*.md")} - {"index.md"}
    for path in sorted((DOCS / folder).glob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text("utf-8"))):
            name, _, section = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), (path.name, link)
            assert not section or section in anchors(target), (path.name, link)


def test_a_page_of_a_task_has_a_goal_what_it_prints_and_what_can_go_wrong() -> None:
    for path in (DOCS / "howto").glob("*.md"):
        text = path.read_text("utf-8")
        if path.name != "index.md":
            assert text.count("\nGoal: ") == 1, path.name
            assert "\nWhat can go wrong\n\n- " in text, path.name


def test_the_chapters_of_the_tutorial_show_their_files_whole() -> None:
    for page in sorted((DOCS / "tutorial").glob("[1-6]-*.md")):
        folder = ROOT / "examples" / "tutorial" / page.stem
        text = page.read_text("utf-8")
        shown = {
            title[1]: each["text"]
            for each in FENCE.finditer(text)
            if (title := TITLE.search(each["info"]))
        }
        for path in folder.glob("*.py"):
            if path.name in shown or f"`{path.name}` is that of" not in text:
                assert shown.get(path.name) == path.read_text("utf-8"), path


def main() -> None:
    for name in sys.argv[1:] or pages():
        with tempfile.TemporaryDirectory() as folder:
            ran, failed = run_page(name, Path(folder).resolve())
        write_page(name, ran)
        print(failed)
        for each in ran:
            print(f"[{name}] $ {each.text}", *each.printed, sep="\n")


if __name__ == "__main__":
    main()
