"""Commands that surely only read."""

from alhena.policy.bash.readonly.judge import folder_may_run, git_directory, not_read_only

__all__ = ["folder_may_run", "git_directory", "not_read_only"]
