import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from google.genai import types

from alhena.tools.docstring import read_docstring
from alhena.tools.function import tool
from tests.support.each import for_each


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Options(TypedDict, total=False):
    depth: int
    label: str


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Shape(msgspec.Struct):
    """An outline."""

    corners: list[Point]
    color: Color = Color.RED


def schema_of(hint: Any) -> dict[str, Any]:
    def function(value) -> None:
        """Does it."""

    function.__annotations__["value"] = hint
    return tool(function).parameter_schema["properties"]["value"]


@for_each(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (str | int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (
            Literal["a"] | None,
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (
            Options,
            {
                "type": "object",
                "properties": {"depth": {"type": "integer"}, "label": {"type": "string"}},
            },
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "number", "default": 0.0},
                },
                "required": ["x"],
            },
        ),
        (Annotated[str, "Where to."], {"type": "string", "description": "Where to."}),
        (
            Annotated[int, msgspec.Meta(ge=1, description="How many.")],
            {"type": "integer", "minimum": 1, "description": "How many."},
        ),
    ],
)
def test_hints_become_schemas_without_references(hint, schema):
    assert schema_of(hint) == schema


def test_nested_types_are_written_out():
    shape = schema_of(Shape)
    assert shape["properties"]["corners"]["items"]["properties"]["x"] == {"type": "integer"}
    assert shape["properties"]["color"]["enum"] == ["red", "blue"]
    assert shape["description"] == "An outline."
    assert "$ref" not in str(shape)


@pytest.mark.parametrize("hint", [str, int, float, bool, list[str], Literal["a", "b"]])
def test_google_genai_declares_the_same_types(hint):
    def function(value) -> str:
        """Does it."""
        return ""

    function.__annotations__["value"] = hint
    ours = tool(function).parameter_schema
    theirs = types.FunctionDeclaration.from_callable_with_api_option(
        callable=function, api_option="GEMINI_API"
    ).parameters
    assert theirs.required == ours["required"]
    (known, named) = theirs.properties["value"], ours["properties"]["value"]
    assert known.type.value.lower() == named["type"]
    assert known.enum == named.get("enum")
    if known.items is not None:
        assert known.items.type.value.lower() == named["items"]["type"]


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (complex, "complex"),
        (object, "object"),
        (list[complex], "complex"),
        (Literal[b"a"], "a choice cannot be a bytes"),
    ],
)
def test_a_hint_that_no_model_could_fill_in_is_refused_at_once(hint, reason):
    with pytest.raises(
        TypeError, match=r"^function\(\): parameter 'value' has the hint "
    ) as caught:
        schema_of(hint)
    assert reason in str(caught.value)
    assert "use str, int" in str(caught.value)


def test_functions_that_cannot_be_tools_say_why():
    def no_hint(value) -> str:
        """Does it."""

    def no_words(value: int) -> str: ...

    def many(*values: int) -> str:
        """Does it."""

    def generator() -> Any:
        """Does it."""
        yield 1

    def name_nothing(value: int) -> str:
        """Does it."""

    name_nothing.__annotations__["value"] = "Missing"

    for function, reason in [
        (no_hint, r"no_hint\(\): parameter 'value' has no type hint"),
        (no_words, r"no_words\(\) has no docstring"),
        (many, r"parameter 'values' has no fixed name"),
        (generator, r"generator\(\): a generator has no single result"),
        (name_nothing, r"name_nothing\(\): a type hint cannot be resolved"),
        (lambda: 1, "cannot be named '<lambda>'"),
    ]:
        with pytest.raises(TypeError, match=reason):
            tool(function)


GOOGLE = """Does it.

    More words.

    Args:
        one: The first: with a colon.
        two (int, optional): The second
            over two lines.
        *rest: The rest.

    Raises:
        ValueError: never.
    """

SPHINX = """Does it.

    More words.

    :param one: The first: with a colon.
    :param int two: The second
        over two lines.
    :param rest: The rest.
    :returns: nothing
    :raises ValueError: never
    """

NUMPY = """Does it.

    More words.

    Parameters
    ----------
    one : str
        The first: with a colon.
    two : int, optional
        The second
        over two lines.
    *rest
        The rest.

    Returns
    -------
    None
    """


@pytest.mark.parametrize("text", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_docstrings_of_three_styles_say_the_same(text):
    docstring = read_docstring(text)
    assert docstring.summary == "Does it.\n\nMore words."
    assert docstring.parameters == {
        "one": "The first: with a colon.",
        "two": "The second over two lines.",
        "rest": "The rest.",
    }


@pytest.mark.parametrize("text", ["", "\n", "Args:", "---\n---", ":param:", "a\n---", "Args:\n  :"])
def test_odd_docstrings_are_read_without_complaint(text):
    assert isinstance(read_docstring(text).parameters, dict)
