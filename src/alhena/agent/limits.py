"""How many model turns a prompt and a session may take."""

from alhena.agent.errors import TurnLimitError


class TurnLimits:
    """Counts model turns against a limit per prompt and one per session (-1: none)."""

    def __init__(self, per_prompt: int, per_session: int) -> None:
        self.session_turns = 0
        self.prompt_turns = 0
        self._per_prompt = per_prompt
        self._per_session = per_session

    def new_prompt(self) -> None:
        """Starts counting for a prompt."""
        self.prompt_turns = 0

    def check(self) -> None:
        """Raises TurnLimitError when no further turn may start."""
        if 0 <= self._per_session <= self.session_turns:
            raise TurnLimitError(
                f"reached the limit of {self._per_session} turns for this session.",
                remedy="Raise model.maxSessionTurns in settings.json.",
            )
        if 0 <= self._per_prompt <= self.prompt_turns:
            raise TurnLimitError(
                f"reached the limit of {self._per_prompt} turns for one prompt.",
                remedy="Ask for less at once; embedding programs set AgentSettings.max_turns.",
            )

    def take(self) -> None:
        """Counts a turn about to start, after `check`."""
        self.check()
        self.session_turns += 1
        self.prompt_turns += 1
