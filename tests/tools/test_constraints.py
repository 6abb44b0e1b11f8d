"""Constraints of pydantic, annotated_types and msgspec: in the schema, and enforced."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import annotated_types as at
import msgspec
import pydantic
import pytest
import typing_extensions
from pydantic import Field
from typing_extensions import Doc

from alhena import Agent, OutputError, call_tool, tool
from alhena.testing import Call, TestModel
from alhena.tools.value_types import schema_of, value_from_json

pytestmark = pytest.mark.requirement("LIB-09")


@dataclasses.dataclass
class Order:
    amount: Annotated[int, Field(ge=1, le=100)]
    note: str = Field("none", min_length=2, description="A note.")
    tags: list[str] = Field(default_factory=list)  # noqa: RUF009


class Where(TypedDict):
    city: Annotated[str, at.MinLen(2)]
    zip: NotRequired[Annotated[str, Field(pattern="^[0-9]+$")]]


class Size(msgspec.Struct):
    width: Annotated[int, at.Gt(0)]
    name: Annotated[str, pydantic.AfterValidator(str.upper)] = "x"


class Point(NamedTuple):
    x: pydantic.PositiveInt


class Place(NamedTuple):
    x: int
    y: int = Field(3, ge=1)
    name: str = "here"


class Loose(typing_extensions.TypedDict):  # pydantic wants this one below Python 3.12
    size: Annotated[int, Field(le=3)]
    later: "NotRequired[str]"  # as texts are with `from __future__ import annotations`


class Exact(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    count: int


class Nested(pydantic.BaseModel):
    exact: list[Exact]
    count: int = Field(1, strict=True)
    free: int = 0


@dataclasses.dataclass
class Mixed:
    flag: pydantic.StrictBool
    names: dict[str, Annotated[int, Field(strict=True)]] = dataclasses.field(default_factory=dict)


@pydantic.with_config(pydantic.ConfigDict(strict=True))
class Typed(typing_extensions.TypedDict):
    count: int


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = Field(default=9, ge=1)


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


@pydantic.dataclasses.dataclass
class Room:
    beds: int = Field(ge=1)


def even(value: int) -> bool:
    return value % 2 == 0


def first_of(values: list[Order]) -> Order:
    return values[0]


UPPER = pydantic.StringConstraints(strip_whitespace=True, to_upper=True, min_length=2)
COMMAS = pydantic.BeforeValidator(lambda text: str(text).replace(",", ""))
HINTS: list[tuple[Any, dict[str, Any], list[Any], Any, Any]] = [
    # hint, keywords in the schema, wrong values, a right one, what it becomes
    (
        Annotated[int, Field(ge=1, le=100, description="So many.")],
        {"minimum": 1, "maximum": 100, "description": "So many."},
        [5000, 0],
        7,
        7,
    ),
    (pydantic.PositiveInt, {"exclusiveMinimum": 0}, [0, -1], 1, 1),
    (pydantic.conint(gt=3, multiple_of=2), {"multipleOf": 2}, [2, 5], 4, 4),
    (pydantic.constr(pattern="^a"), {"pattern": "^a"}, ["b"], "ab", "ab"),
    (Annotated[str, UPPER], {"minLength": 2}, [" a "], " ab ", "AB"),
    (Annotated[int, pydantic.AfterValidator(lambda n: n * 2)], {"type": "integer"}, ["a"], 2, 4),
    (Annotated[int, COMMAS], {"type": "integer"}, ["a"], "1,000", 1000),
    (Annotated[int, at.Interval(ge=2, lt=5)], {"minimum": 2, "exclusiveMaximum": 5}, [1, 5], 4, 4),
    (Annotated[str, at.Len(2, 3)], {"minLength": 2, "maxLength": 3}, ["a", "abcd"], "ab", "ab"),
    (Annotated[int, at.Predicate(even)], {"type": "integer"}, [1], 2, 2),
    (Annotated[float, msgspec.Meta(ge=1), at.Lt(2)], {"exclusiveMaximum": 2}, [0, 2], 1.5, 1.5),
    (Annotated[list[int], Field(min_length=2)], {"minItems": 2}, [[1]], [1, 2], [1, 2]),
    (Annotated[bytes, at.MaxLen(1)], {"type": "string"}, ["aGk="], "aA==", b"h"),
    (
        Annotated[int | None, Field(ge=1)],
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        [0],
        None,
        None,
    ),
    (
        Annotated[date, at.Gt(date(2020, 1, 1))],
        {"format": "date"},
        ["2019-01-01"],
        "2021-01-01",
        date(2021, 1, 1),
    ),
    (
        Annotated[datetime, at.Timezone(...)],
        {"format": "date-time"},
        ["2020-01-01T10:00:00"],
        "2020-01-01T10:00:00Z",
        datetime.fromisoformat("2020-01-01T10:00:00Z"),
    ),
    (list[pydantic.PositiveInt], {"type": "array"}, [[1, 0]], [1], [1]),
    (dict[str, Where], {"type": "object"}, [{"a": {"city": "x"}}], {}, {}),
    (Where, {"type": "object"}, [{"city": "ab", "zip": "x"}], {"city": "ab"}, {"city": "ab"}),
    (
        Order,
        {"required": ["amount"]},
        [{"amount": 0}, {"amount": 1, "note": ""}],
        {"amount": 1},
        Order(1, "none", []),
    ),
    (Size, {"required": ["width"]}, [{"width": 0}], {"width": 1, "name": "a"}, Size(1, "A")),
    (Point, {"minItems": 1}, [[0]], [1], Point(1)),
    (Cat, {"required": ["kind"]}, [{"kind": "cat", "lives": 0}], {"kind": "cat"}, Cat(kind="cat")),
    (Room, {"required": ["beds"]}, [{"beds": 0}], {"beds": 1}, Room(beds=1)),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {},
        [{"kind": "cat", "lives": 0}],
        {"kind": "dog"},
        Dog(kind="dog"),
    ),
    (
        Annotated[list[Order], Field(min_length=1), pydantic.AfterValidator(first_of)],
        {"minItems": 1},
        [[]],
        [{"amount": 1}],
        Order(1, "none", []),
    ),
    (Place, {"minItems": 1, "maxItems": 3}, [[1, 0], [1, 2, "a", 4]], [1], Place(1, 3, "here")),
    (Loose, {"required": ["size"]}, [{"size": 4}, {}], {"size": 3}, {"size": 3}),
    (dict[pydantic.PositiveInt, int], {"type": "object"}, [{"0": 1}, {"a": 1}], {"1": 2}, {1: 2}),
    (
        dict[Literal[1, 2], str],
        {"propertyNames": {"enum": ["1", "2"]}},
        [{"3": "a"}],
        {"1": "a"},
        {1: "a"},
    ),
    # strict: no other spelling of a value, which tools take from models otherwise
    (pydantic.StrictInt, {"type": "integer"}, ["1", 1.0, True], 1, 1),
    (pydantic.StrictStr, {"type": "string"}, [1, True], "1", "1"),
    (pydantic.StrictBool, {"type": "boolean"}, ["true", "True", 1], True, True),
    (pydantic.StrictFloat, {"type": "number"}, ["1.5"], 1, 1.0),
    (pydantic.StrictInt | None, {}, ["1", "null"], None, None),
    (pydantic.conint(strict=True, ge=1), {"minimum": 1}, ["5", 0], 5, 5),
    (Annotated[pydantic.StrictInt, msgspec.Meta(ge=2)], {"minimum": 2}, [1, "3"], 3, 3),
    (Annotated[list[int], Field(strict=True)], {"type": "array"}, ["[1]"], [1], [1]),
    (list[pydantic.StrictInt], {"type": "array"}, [["1"]], [1], [1]),
    (
        Exact,
        {"required": ["count"]},
        [{"count": "1"}, {"count": 1.0}],
        {"count": 1},
        Exact(count=1),
    ),
    (
        Nested,
        {"required": ["exact"]},
        [{"exact": [{"count": "1"}]}, {"exact": [], "count": "2"}],
        {"exact": [{"count": 1}], "free": "2"},
        Nested(exact=[Exact(count=1)], count=1, free=2),
    ),
    (
        Mixed,
        {"required": ["flag"]},
        [{"flag": "true"}, {"flag": True, "names": {"a": "1"}}],
        {"flag": True, "names": {"a": 1}},
        Mixed(flag=True, names={"a": 1}),
    ),
    (Typed, {"required": ["count"]}, [{"count": "1"}], {"count": 1}, {"count": 1}),
    (pydantic.HttpUrl, {"format": "uri"}, ["nope"], "http://x.y/", pydantic.HttpUrl("http://x.y/")),
]


@pytest.mark.parametrize(
    ("hint", "keywords", "wrong", "right", "value"), HINTS, ids=lambda each: str(each)[:40]
)
async def test_a_constraint_is_in_the_schema_and_enforced(
    hint: Any, keywords: dict[str, Any], wrong: list[Any], right: Any, value: Any
):
    taken: list[Any] = []

    def take(given: Any) -> str:
        """Takes a value."""
        taken.append(given)
        return "taken"

    take.__annotations__["given"] = hint
    made = tool(take)
    schema = made.parameter_schema["properties"]["given"]
    assert {key: schema.get(key) for key in keywords} == keywords
    for each in wrong:
        refused = await call_tool(made, {"given": each})
        assert refused.error is not None
        assert refused.error.type == "invalid_tool_params"
        with pytest.raises(ValueError, match=r"."):
            value_from_json(hint, each)
    assert taken == []
    done = await call_tool(made, {"given": right})
    assert done.error is None
    assert taken == [value]
    assert value_from_json(hint, right) == value


def with_default(size: int = Field(5, ge=1, le=100, description="The size.")) -> int:
    """Takes a size."""
    return size


def without_default(size: int = Field(ge=1)) -> int:
    """Takes a size."""
    return size


def made_each_time(sizes: list[int] = Field(default_factory=lambda: [3])) -> list[int]:  # noqa: B008
    """Takes sizes."""
    return sizes


def stated_in_the_hint(size: Annotated[int, Field(default=7, gt=2)]) -> int:
    """Takes a size."""
    return size


@pytest.mark.parametrize(
    ("function", "told", "answer"),
    [
        (with_default, {"default": 5, "minimum": 1, "description": "The size."}, "5"),
        (without_default, {"minimum": 1}, None),
        (made_each_time, {"type": "array"}, "[3]"),
        (stated_in_the_hint, {"default": 7, "exclusiveMinimum": 2}, "7"),
    ],
)
async def test_a_field_as_default_gives_constraints_and_the_default(
    function: Callable[..., Any], told: dict[str, Any], answer: str | None
):
    made = tool(function)
    (schema,) = made.parameter_schema["properties"].values()
    assert {key: schema.get(key) for key in told} == told
    done = await call_tool(made, {})
    assert (done.error is None) == (answer is not None)
    assert answer is None or done.llm_content == answer


def test_doc_describes_a_parameter_wherever_it_stands():
    hint = Annotated[str, Doc("The city.")]
    assert schema_of(hint)["description"] == "The city."
    assert schema_of(list[hint])["items"]["description"] == "The city."


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Annotated[str, at.Ge(1)], "ge=1 cannot constrain str"),
        (Annotated[int, at.MinLen(1)], "min_length=1 cannot constrain int"),
        (Annotated[int, even], "a function in Annotated checks nothing"),
        (Annotated[int, Field(alias="n")], "an alias in Field is not supported"),
        (Annotated[str, Field(pattern="(")], "pydantic cannot read it"),
        (list[Annotated[str, at.MultipleOf(2)]], "multiple_of=2 cannot constrain str"),
    ],
)
def test_a_constraint_that_cannot_be_enforced_is_refused_when_the_tool_is_made(
    hint: Any, reason: str
):
    def take(given: Any) -> None:
        """Takes a value."""

    take.__annotations__["given"] = hint
    with pytest.raises(TypeError, match=reason):
        tool(take)
    with pytest.raises(TypeError, match=reason):
        Agent("demo").run("go", output=hint)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (time, "10:00", time(10)),
        (time, "10:00:30", time(10, 0, 30)),
        (datetime, "2026-01-31 10:00", datetime.fromisoformat("2026-01-31T10:00:00")),
        (datetime, "2026-01-31", datetime.fromisoformat("2026-01-31T00:00:00")),
        (Decimal, 1.5, Decimal("1.5")),
        (Decimal, "1.50", Decimal("1.50")),
    ],
)
def test_values_have_the_usual_forms_of_json(kind: Any, given: Any, value: Any):
    assert value_from_json(kind, given) == value
    assert (kind is Decimal) or schema_of(kind)["format"] in ("time", "date-time")


async def test_the_model_reads_the_reason_and_an_output_keeps_its_constraints(project: Path):
    ran: list[int] = []

    def pay(amount: Annotated[int, Field(le=100)]) -> str:
        """Pays an amount."""
        ran.append(amount)
        return "paid"

    small = {"amount": 5000}
    model = TestModel(Call("pay", amount=5000), *[Call("final_answer", **small)] * 2)
    agent = Agent(model, tools=[pay], isolated=True, cwd=project)
    with pytest.raises(OutputError) as caught:
        await agent.run("Pay.", output=Order)
    assert ran == []
    assert "must be <= 100" in json.dumps(model.requests[1])
    assert "at most 100" in caught.value.reasons[-1]


WITHOUT_PYDANTIC = """
import sys
sys.modules["pydantic"] = None  # importing it fails
from typing import Annotated
import annotated_types as at
from alhena.tools.value_types import value_from_json
print(value_from_json(Annotated[int, at.Ge(1)], 2))
try:
    value_from_json(Annotated[int, at.Ge(1)], 0)
except ValueError as error:
    print(error)
"""


def test_annotated_types_needs_no_pydantic(project: Path):
    command = [sys.executable, "-c", WITHOUT_PYDANTIC]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:2] == ["2", "expected at least 1, got 0"]
