"""The pytest plugin: its fixtures are there in every project that has alhena installed."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def no_real_requests() -> Iterator[None]:
    """Lets no request to a model or a web page leave during the test (`alhena.testing`)."""
    from alhena.testing import no_real_requests as forbid

    with forbid():
        yield
