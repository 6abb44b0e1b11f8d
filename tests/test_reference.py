"""docs/reference/ is made from the code, and is up to date."""

import inspect

import pytest
from scripts.public_api import public_names
from scripts.reference import FOLDER, MODULES, PAGES, render

import alhena
from alhena.config.reference_keys import known_keys
from alhena.frontends.main import COMMANDS
from tests.support.each import for_each

NAMES = ("index", *PAGES)


@pytest.mark.requirement("DOC-02")
@for_each("name", NAMES)
def test_a_page_is_as_the_code_says(name: str):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text == render(name), "write it with: make reference"


@pytest.mark.requirement("DOC-02")
def test_nothing_public_is_missing():
    rooms = {f"alhena.{name}" for name in alhena.__all__ if inspect.ismodule(getattr(alhena, name))}
    assert rooms < {module for module, _ in MODULES.values()}
    assert {path.stem for path in FOLDER.glob("*.md")} == {*NAMES}
    for name, (module, _) in MODULES.items():
        lines = render(name).splitlines()
        missing = [each for each in public_names(module) if f"## {each}" not in lines]
        assert not missing, module
    text = render("api")
    for each in (alhena.Agent, alhena.Result, alhena.Run, alhena.Image):
        methods = [name for name, _ in inspect.getmembers(each, callable) if name[0] != "_"]
        assert not [name for name in methods if f"{each.__name__}.{name}(" not in text], each
    text = render("settings")
    assert not [key for key in known_keys() if f"| `{key}` |" not in text]
    assert not [name for name in COMMANDS if f"\n## alhena {name}\n" not in render("commands")]
