"""The number of subagents of a session."""

import asyncio

from alhena.config.settings import AgentsSettings
from alhena.tools.builtin.ask_user import Ask, agrees
from alhena.tools.builtin.subagents import RunAgent
from alhena.tools.contract import ExecutionContext, QuestionOption, ToolResult


class AgentLimit:
    """Limits how many agents run: those beyond `maxConcurrent` wait, and beyond `maxPerSession` a
    person is asked; without one they are refused."""

    def __init__(self, settings: AgentsSettings, ask: Ask | None) -> None:
        self._settings = settings
        self._ask = ask
        self._allowed = settings.max_per_session
        self._begun = 0
        self._places = asyncio.Semaphore(settings.max_concurrent)
        self._turn = asyncio.Lock()

    def over(self, run: RunAgent) -> RunAgent:
        """Runs agents by `run` within the limits."""

        async def run_admitted(name: str, objective: str, context: ExecutionContext) -> ToolResult:
            async with self._turn:
                if self._begun >= self._allowed and not await self._more():
                    return ToolResult.from_failure(
                        f"Subagent '{name}' was not started: this session has run {self._begun} "
                        "agents, as many as agents.maxPerSession allows. Do the task without one."
                    )
                self._begun += 1
            async with self._places:
                return await run(name, objective, context)

        return run_admitted

    async def _more(self) -> bool:
        more = max(1, self._settings.max_per_session)
        if not await agrees(
            self._ask,
            f"This session has run {self._begun} subagents. Start more?",
            "Agents",
            QuestionOption(
                label=f"Allow {more} more", description="Each sends requests of its own."
            ),
            QuestionOption(label="No", description="The model continues without it."),
        ):
            return False
        self._allowed = self._begun + more
        return True
