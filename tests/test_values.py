"""Value classes that programs construct: they convert what they are given, or refuse it."""

import pkgutil
from enum import Enum
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

import alhena
from alhena.config.settings import Settings
from alhena.errors import ConfigError
from alhena.policy.model import ApprovalMode, CommandClass, PolicyOutcome, PolicyRule
from alhena.values import FieldError, Value
from tests.support.agents import scripted_agent
from tests.support.each import for_each
from tests.support.scripted import ScriptedGenerator

INSIDE = tuple(
    f"alhena.{room}."
    for room in (
        *("chat", "config", "frontends", "gateway", "mcp", "memory", "models", "session", "system"),
        *(
            "agent.toolset.toolset",
            "batch.control",
            "batch.ray",
            "batch.reports",
            "shell",
            "tracing",
        ),
        *("tools.catalogue", "wire.conformance", "wire.schema"),
    )
)
"""Rooms whose values are made by alhena alone, from what was read and checked."""


def structs() -> list[type[msgspec.Struct]]:
    """All public Structs of the package, by module."""
    found: list[type[msgspec.Struct]] = []
    for listed in pkgutil.walk_packages(alhena.__path__, "alhena."):
        if listed.name.endswith("__main__"):
            continue
        try:
            module = import_module(listed.name)
        except ImportError:  # a library that is not there, such as Ray
            continue
        found += (
            each
            for name, each in vars(module).items()
            if isinstance(each, type)
            and issubclass(each, msgspec.Struct)
            and each.__module__ == listed.name
            and not name.startswith("_")
        )
    return found


def kinds(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        return kinds(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def takes_text(kind: Any) -> bool:
    """True where a text must not pass: an enum, or a tuple or set of texts."""
    return is_enum(kind) or (get_origin(kind) in (tuple, frozenset) and str in get_args(kind))


def fields(cls: type) -> dict[str, tuple[Any, ...]]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= get_annotations(base)
    return {
        name: kinds(each)
        for name, each in found.items()
        if not isinstance(each, str) and name in getattr(cls, "__struct_fields__", ())
    }


STRUCTS = structs()
PUBLIC = [
    (each, name)
    for each in STRUCTS
    if not f"{each.__module__}.".startswith(INSIDE)
    for name, kind in fields(each).items()
    if any(map(takes_text, kind)) and str not in kind
]


def sample(kind: tuple[Any, ...]) -> Any:
    """A value that a field takes."""
    first = kind[0]
    if is_enum(first):
        return next(iter(first))
    if get_origin(first) is Literal:
        return get_args(first)[0]
    if get_origin(first) in (tuple, frozenset):
        return get_origin(first)()
    return first() if first in (str, int, float, bool, bytes) else None


def made(cls: type[msgspec.Struct], **given: Any) -> msgspec.Struct:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    first = len(names) - len(defaults)
    required = [
        name
        for position, name in enumerate(names)
        if position < first or defaults[position - first] is msgspec.NODEFAULT
    ]
    annotated = fields(cls)
    values = {name: sample(annotated.get(name, (None,))) for name in required}
    if "reason" in names:  # which some decisions have to have
        values["reason"] = "reason"
    return cls(**(values | given))


def test_there_are_many():
    assert len(PUBLIC) > 60


@for_each(("cls", "name"), PUBLIC)
def test_a_public_value_class_refuses_text_that_it_does_not_mean(
    cls: type[msgspec.Struct], name: str
):
    assert issubclass(cls, Value)
    shown = cls.__name__.removesuffix("Arguments")  # those of `Agent`
    with pytest.raises(FieldError, match=rf"{shown}\.{name} cannot be 'nonsense'"):
        made(cls, **{name: "nonsense"})


ENUMS = [(each, name) for each, name in PUBLIC if any(map(is_enum, fields(each)[name]))]


@for_each(("cls", "name"), ENUMS)
def test_a_public_value_class_takes_the_text_of_an_enum(cls: type[msgspec.Struct], name: str):
    for kind in filter(is_enum, fields(cls)[name]):
        for member in kind:
            assert getattr(made(cls, **{name: member.value}), name) is member


@pytest.mark.parametrize("priority", [-1, 1000, 1.5, "100", True])
def test_a_priority_is_a_whole_number_from_0_to_999(priority: Any):
    with pytest.raises(FieldError, match=r"Rule\.priority cannot be"):
        PolicyRule(decision=PolicyOutcome.ALLOW, priority=priority)


def test_a_rule_of_texts_is_the_rule_of_enums():
    said: Any = {"decision": "allow", "command_class": "read-only", "modes": ["plan"]}
    assert PolicyRule(priority=1, **said) == PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=1,
        command_class=CommandClass.READ_ONLY,
        modes=(ApprovalMode.PLAN,),
    )


async def test_yolo_as_text_does_not_pass_the_setting_that_turns_it_off(tmp_path: Path):
    mode: Any = "yolo"
    settings = msgspec.convert({"security": {"disableYoloMode": True}}, Settings)
    agent = scripted_agent(
        ScriptedGenerator(), cwd=tmp_path, approval_mode=mode, settings=settings, environ={}
    )
    with pytest.raises(ConfigError, match="disableYoloMode"):
        async with agent:
            pass
