"""What the pages of docs/ show is what happens: `console` blocks print what they say.

`python -m tests.test_pages [PAGE…]` writes into the pages what their commands print now.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.pages import masked, pages, run_page, shown_commands, write_page


@pytest.mark.parametrize("name", pages())
def test_the_commands_of_a_page_print_what_it_says(name: str, tmp_path: Path) -> None:
    told, ran = shown_commands(name), run_page(name, tmp_path)
    for each, now in zip(told, ran, strict=True):
        assert masked(each.printed) == masked(now.printed), each.text


def main() -> None:
    for name in sys.argv[1:] or pages():
        with tempfile.TemporaryDirectory() as folder:
            ran = run_page(name, Path(folder).resolve())
        write_page(name, ran)
        for each in ran:
            print(f"[{name}] $ {each.text}", *each.printed, sep="\n")


if __name__ == "__main__":
    main()
