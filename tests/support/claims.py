"""Pytest hooks for the rows of requirements.toml that tests claim."""

import tomllib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--list-requirements", action="store_true", help="print what tests claim")
    parser.addoption("--requirement", metavar="ROW", help="run only the tests that claim this row")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rows = tomllib.loads((config.rootpath / "requirements.toml").read_text(encoding="utf-8"))
    known = {identifier for ids in rows.values() for identifier in ids}
    claims = {
        item: [row for mark in item.iter_markers("requirement") for row in mark.args]
        for item in items
    }
    unknown = [
        f"{item.nodeid} claims {row}" for item in items for row in claims[item] if row not in known
    ]
    if unknown:
        raise pytest.UsageError("no such row in requirements.toml: " + "; ".join(unknown))
    if config.getoption("--list-requirements"):
        for item in items:
            for row in claims[item]:
                print(f"requirement {row} {item.nodeid}")
    wanted = config.getoption("--requirement")
    if wanted:
        config.hook.pytest_deselected(items=[item for item in items if wanted not in claims[item]])
        items[:] = [item for item in items if wanted in claims[item]]
