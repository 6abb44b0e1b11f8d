"""Tests over many values: one test for all of them, which names those that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize` without a test for each value, which costs more than a call of a
    pure function. Fixtures are shared by all values."""
    rows = list(values)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def over_all(**fixtures: object) -> None:
            failures: list[Exception] = []
            for row in rows:
                given = (
                    {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
                )
                try:
                    test(**fixtures, **given)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    failure = AssertionError(f"{ascii(given)[:2000]}: {error}")
                    failures.append(failure.with_traceback(error.__traceback__))
            if failures:
                raise ExceptionGroup(f"fails with {len(failures)} of {len(rows)} values", failures)

        taken = inspect.signature(test).parameters
        left = [parameter for name, parameter in taken.items() if name not in _names(names)]
        over_all.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return over_all

    return decorated


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names
