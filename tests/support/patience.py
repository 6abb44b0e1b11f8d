"""How long tests wait for processes of their own."""

import os

PATIENCE_S = float(os.environ.get("PYTEST_TIMEOUT", "10")) - 1
"""Seconds. A little less than the limit of a test, so that what did not come to an end is named;
where a run gives its tests more time, as unattended ones on strange machines do, it is more."""
