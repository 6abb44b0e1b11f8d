"""Outlines from the text of a file."""

import pytest

from alhena.models.rehearsal.manifest import facts, first_of
from alhena.models.rehearsal.outline import outline, title_and_lead


@pytest.mark.parametrize(
    ("path", "text", "kind", "entries"),
    [
        (
            "a.md",
            "# A\ntext\n```sh\n# no heading\n```\n## B ##\n",
            "headings",
            ("A", "  B"),
        ),
        (
            "a.py",
            "import x\nclass A(B):\n    async def f(self) -> int:\n        pass\n",
            "definitions",
            ("class A(B)", "  async def f(self) -> int"),
        ),
        (
            "a.tsx",
            "export default function App() {\n}\nexport interface P {\nconst f = (x) => x\nlet y = 1\n",
            "definitions",
            ("export default function App()", "export interface P", "const f = (x) => x"),
        ),
        (
            "a.go",
            "package a\nfunc (s *S) F() error {\ntype S struct {\nvar x\n",
            "definitions",
            ("func (s *S) F() error", "type S struct"),
        ),
        (
            "a.rs",
            "use x;\npub(crate) fn f() {\nimpl A for B {\n    pub async fn g() {\nlet x = 1;\n",
            "definitions",
            ("pub(crate) fn f()", "impl A for B", "  pub async fn g()"),
        ),
        (
            "A.java",
            "import a;\npublic final class A {\n    private int f(int x) {\n        return f(1);\n",
            "definitions",
            ("public final class A", "  private int f(int x)"),
        ),
        ("a.toml", '[a]\nx = 1\n[[b.c]]\ny = "[no]"\n', "sections", ("[a]", "[[b.c]]")),
        ("a.ini", "[one]\nx=1\n", "sections", ("[one]",)),
        ("a.json", '{"b": {"c": 1}, "a": 2}', "top-level keys", ("b", "a")),
        ("a.json", "[1, 2]", "first lines", ("[1, 2]",)),
        ("a.json", "[" * 50_000, "first lines", ("[" * 50_000,)),
        ("a.yml", "a: 1\n  b: 2\nc:\n", "top-level keys", ("a", "c")),
        ("src/Makefile", "X := 1\nall: x\n\tcc: no\n", "targets", ("all",)),
        ("notes", "\none\n\ntwo\n", "first lines", ("one", "two")),
        ("a.py", "x = 1\n", "first lines", ("x = 1",)),
    ],
)
def test_an_outline_follows_the_kind_of_file(
    path: str, text: str, kind: str, entries: tuple[str, ...]
) -> None:
    found = outline(path, text)
    assert found.kind == kind
    assert found.entries == entries


def test_a_readme_gives_its_title_and_first_prose() -> None:
    text = "[![badge](x)](y)\n# Title\n\n> quote\n\nFirst *line*\n- goes on.\n\nSecond.\n"
    assert title_and_lead(text) == ("Title", "First *line* - goes on.")
    assert title_and_lead("") == ("", "")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "pyproject.toml",
            '[project]\nname = "a"\nrequires-python = ">=3.11"\ndependencies = ["x", "y"]\n',
            (("name", "a"), ("Python", ">=3.11"), ("dependencies", "x, y")),
        ),
        ("Cargo.toml", '[package]\nname = "b"\nversion = "2"\n', (("name", "b"), ("version", "2"))),
        ("package.json", '{"name": "c", "scripts": {"t": "x"}}', (("name", "c"), ("scripts", "t"))),
        ("go.mod", "module example.com/m\n", (("name", "example.com/m"),)),
        ("pyproject.toml", "[project\n", ()),
        ("pyproject.toml", "project = 3\n", ()),
        ("package.json", "[]", ()),
        ("package.json", "{", ()),
    ],
)
def test_a_manifest_gives_its_facts_and_a_broken_one_none(
    path: str, text: str, expected: tuple[tuple[str, str], ...]
) -> None:
    assert facts(path, text) == expected


def test_names_are_chosen_in_order_of_preference_whatever_their_case() -> None:
    assert first_of(("README.md", "README"), ("a", "readme", "Readme.MD")) == "Readme.MD"
    assert first_of(("README.md",), ("a",)) is None
