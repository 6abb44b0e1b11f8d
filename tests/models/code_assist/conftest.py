from collections.abc import Iterator

import pytest

from tests.support.google import GoogleServer


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    """A loopback OAuth server and Code Assist."""
    with GoogleServer() as server:
        yield server
