"""Commands that surely only read."""

from alhena.policy.bash.readonly.git import tells_version
from alhena.policy.bash.readonly.judge import folder_may_run, not_read_only

__all__ = ["folder_may_run", "not_read_only", "tells_version"]
