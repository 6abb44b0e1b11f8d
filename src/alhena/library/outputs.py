"""The output that a run is asked for: a type, or a JSON schema."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from alhena.agent.final_answer import FinalAnswer
from alhena.library.waiting import RunChoices
from alhena.tools.value_types import schema_of, value_from_json


def final_of(arguments: RunChoices) -> FinalAnswer | None:
    """The value that a run has to end with, if any. Raises TypeError."""
    output, check, corrections = arguments.output, arguments.check, arguments.corrections
    if output is str and check is not None:
        raise TypeError("check needs output=, a type whose values it checks")
    if output is str:
        return None
    if not isinstance(cast("object", corrections), int) or corrections < 0:
        raise TypeError(f"corrections has to be a number from 0, not {corrections!r:.60}")
    return FinalAnswer(*read_output_type(output, check), corrections)


def read_output_type(output: Any, check: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The schema of a type, and what reads a value of it. Raises TypeError."""
    if isinstance(output, Mapping):
        return _by_schema(dict(cast("Mapping[str, Any]", output)), check)
    try:
        schema = schema_of(output)
    except TypeError as error:
        raise TypeError(f"output cannot be {output!r:.100}: {error}") from None
    if check is not None and not callable(check):
        raise TypeError(f"check has to be a function, not {check!r:.60}")

    def read(data: Any) -> Any:
        value = value_from_json(output, data)
        return value if check is None else check(value)

    return schema, read


def _by_schema(schema: dict[str, Any], check: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """A JSON schema, and what reads a value of it."""
    from alhena.tools.params import problem_with

    def read(data: Any) -> Any:
        problem = problem_with(schema, data)
        if problem is not None:
            raise ValueError(problem)
        return data if check is None else check(data)

    return schema, read
