"""Types as JSON Schemas, and values of them from JSON."""

import datetime as dt
import decimal
import enum
import typing
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from alhena.tools.value_types import schema_of, value_from_json, value_to_json
from tests.support.each import for_each


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    WORD = "a"
    NUMBER = 1


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: float
    color: Color = Color.RED


@dataclass
class Colored:
    radius: float
    color: Color


@dataclass
class Tree:
    """A tree."""

    name: Annotated[str, "Its name."]
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("the number has to be positive")


class Options(TypedDict):
    depth: int
    shapes: NotRequired[list[Circle | Square]]


class Point(NamedTuple):
    x: int
    y: int


class Cat(msgspec.Struct, tag="cat"):
    home: Path


class Order(pydantic.BaseModel):
    number: int
    color: Color = Color.RED


class Folder(pydantic.BaseModel):
    name: str
    inside: "list[Folder]" = []


Meter = NewType("Meter", int)
UTC = dt.UTC

READ: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (float, 3, 3.0),
    (int | float, 3, 3),
    (float | int, 3, 3),
    (float | int, 3.5, 3.5),
    (bool | int, True, True),
    (bool | int, 1, 1),
    (str | None, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (Meter, 7, 7),
    (Color, "blue", Color.BLUE),
    (Mixed, 1, Mixed.NUMBER),
    (Literal["b", "a", 1] | None, None, None),
    (list[Color], ["red"], [Color.RED]),
    (Sequence[int], [1], [1]),
    (set[int], [1, 1], {1}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, Path], {"1": "/a"}, {1: Path("/a")}),
    (dict[Color, int], {"red": 1}, {Color.RED: 1}),
    (Mapping[str, Point], {"a": [1, 2]}, {"a": Point(1, 2)}),
    (Circle | Square, {"side": 2, "color": "blue"}, Square(2.0, Color.BLUE)),
    (Circle | Colored, {"radius": 1, "color": "blue"}, Colored(1.0, Color.BLUE)),
    (Circle | Colored, {"radius": 1}, Circle(1.0)),
    (Options, {"depth": 1, "shapes": [{"radius": 1}]}, {"depth": 1, "shapes": [Circle(1.0)]}),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
    (Cat, {"type": "cat", "home": "/a"}, Cat(Path("/a"))),
    (Order, {"number": 1, "color": "blue"}, Order(number=1, color=Color.BLUE)),
    (Folder, {"name": "a", "inside": [{"name": "b"}]}, Folder(name="a", inside=[Folder(name="b")])),
    (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
    (dt.datetime, "2024-01-01T00:00:00Z", dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (dt.time, "12:00:00", dt.time(12)),
    (uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (bytes, "QQ==", b"A"),
]


@pytest.mark.requirement("LIB-04")
@for_each(("kind", "data", "value"), READ)
def test_json_becomes_a_value_of_the_type(kind: Any, data: Any, value: Any):
    made = value_from_json(kind, data)
    assert (made, type(made)) == (value, type(value))


@for_each(
    ("kind", "data", "message"),
    [
        (list[Square], [{"side": 1}, {"side": "x"}], "[1].side: expected number, got string"),
        (list[Square], [{}], "[0]: required field 'side' is missing"),
        (Options, {"depth": 1, "shapes": {}}, "shapes: expected array, got object"),
        (Tree, {"name": "a", "children": [{"name": 2}]}, "children[0].name: expected string"),
        (Circle | Square, 3, "expected object, got 3"),
        (str | int, None, "expected string, got null; or expected integer, got null"),
        (Color, "green", "expected one of 'red', 'blue', got 'green'"),
        (Literal[1], True, "expected one of 1, got true"),
        (dict[int, str], {"x": ""}, "the key 'x' is no integer"),
        (dict[Color, int], {"green": 1}, "green: expected one of 'red', 'blue'"),
        (tuple[int, str], [1], "expected 2 items, got 1"),
        (set[Any], [[1]], "its items cannot be in a set"),
        (dict[str, Positive], {"a": {"number": 0}}, "a: the number has to be positive"),
        (list[Cat], [{"type": "dog", "home": ""}], "[0].type: expected 'cat', got 'dog'"),
        (list[Folder], [{"name": "a", "inside": [{}]}], "[0].inside[0].name: Field required"),
        (Annotated[list[int], msgspec.Meta(min_length=1)], [], "expected array of length >= 1"),
        (dt.date, "2024-02-31", "invalid RFC3339"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(kind: Any, data: Any, message: str):
    with pytest.raises(ValueError) as caught:
        value_from_json(kind, data)
    assert str(caught.value).startswith(message)


@pytest.mark.requirement("LIB-04")
def test_schemas_keep_order_and_words_and_say_what_contains_itself():
    assert schema_of(Color)["enum"] == ["red", "blue"]
    assert schema_of(Literal["b", "a", 1])["anyOf"] == [
        {"type": "string", "enum": ["b", "a"]},
        {"type": "integer", "enum": [1]},
    ]
    assert schema_of(list[Annotated[int, "A year."]])["items"]["description"] == "A year."
    tree = schema_of(Tree)
    assert tree["properties"]["name"] == {"type": "string", "description": "Its name."}
    assert tree["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert tree["$defs"]["Tree"]["description"] == "A tree."
    assert "$ref" not in str(schema_of(Options))
    assert schema_of(Point)["prefixItems"][1] == {"type": "integer", "description": "y"}
    assert schema_of(Cat)["properties"]["type"]["enum"] == ["cat"]
    assert schema_of(Folder)["properties"]["inside"]["items"] == {"$ref": "#/$defs/Folder"}
    assert schema_of(Any) == {}
    assert schema_of(typing.List)["type"] == "array"  # noqa: UP006  an old spelling of programs


@pytest.mark.parametrize(
    "value", [Circle(1.0), [Color.RED], Path("/a"), {"a": Order(number=1)}, dt.date(2024, 1, 1)]
)
def test_values_become_json_that_reads_back(value: Any):
    kind = {list: list[Color], dict: dict[str, Order]}.get(type(value), type(value))
    if isinstance(value, Path):
        kind = Path
    assert value_from_json(kind, value_to_json(value)) == value
