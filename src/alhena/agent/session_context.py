"""What a session tells the model of itself and of where it runs, gathered from the machine."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from alhena.agent.recording import Place
from alhena.agent.workbench import Workbench
from alhena.chat.prompt import (
    SECTIONS,
    EnvironmentFacts,
    PromptFacts,
    composed_prompt,
    environment_context,
    system_instruction,
)
from alhena.config.home import project_temp
from alhena.config.trust import FolderTrust
from alhena.policy.model import ApprovalMode
from alhena.system.errors import printable
from alhena.system.folder import MAX_ITEMS, folder_structure
from alhena.system.ignore import IgnoreRules
from alhena.system.workspace import Workspace
from alhena.wire.content import Content

OFF = frozenset({"0", "false"})
"""What turns off a thing that a variable speaks of."""

_MOST_ITEMS = 1_000
"""Items of the trees of all directories together."""
_MOST_NAMED = 80


def first_contents(
    workspace: Workspace, place: Place, project_memory: str
) -> tuple[Content, Content]:
    """The contents a new session begins with. `project_memory` is what the project's context files
    say. Raises ConfigError."""
    cwd, environ, settings = place
    roots = workspace.roots
    trees: list[str] = []
    if settings.context.include_directory_tree:
        items = min(MAX_ITEMS, max(1, _MOST_ITEMS // len(roots)))
        trees = [
            folder_structure(each, IgnoreRules(each, environ=environ), items) for each in roots
        ]
    return environment_context(
        EnvironmentFacts(
            date=time.strftime("%A, %B %d, %Y"),
            platform=sys.platform,
            temp=printable(project_temp(environ, cwd)),
            directories=tuple(printable(root) for root in roots),
            folder_structure="\n\n".join(trees),
            project_memory=project_memory,
        )
    )


class SessionPrompt:
    """The system prompt of a session: composed, or `own`, what the user has put in its place, with
    its variables to be told."""

    def __init__(self, facts: PromptFacts, own: str | None = None) -> None:
        self.facts = facts
        self.own = own

    def composed(self, bench: Workbench) -> str:
        """The prompt that is composed for the tools and the mode of now."""
        facts = msgspec.structs.replace(
            self.facts,
            plan=bench.modes.planning,
            unasked=bench.modes.mode is ApprovalMode.YOLO,
        )
        return composed_prompt(bench.registry.function_declarations(), facts)

    def instruction(self, bench: Workbench) -> Content:
        """The system instruction of now, with what the user wants every session to know."""
        memory = "" if bench.memory is None else bench.memory.user_text
        servers = _of_servers(bench)
        if self.own is None:
            return system_instruction(self.composed(bench), memory, servers)
        from alhena.agent.own_prompt import told_of_tools

        return system_instruction(told_of_tools(self.own, bench.registry), memory, servers)


def _of_servers(bench: Workbench) -> str:
    """What MCP servers want the model to know of them."""
    if bench.servers is None:
        return ""
    from alhena.agent.session_mcp import instructions

    return instructions(bench.servers)


def open_prompt(
    bench: Workbench,
    environ: Mapping[str, str],
    trust: Callable[[Path], FolderTrust],
    given: str | None = None,
    *,
    headless: bool,
) -> SessionPrompt:
    """The system prompt of a session, which is written to a file where the user wants that. `trust`
    says whether a folder is trusted. What the program has `given` counts before what the user has
    put in place of the composed one. Raises ConfigError."""
    cwd = bench.workspace.cwd
    facts = PromptFacts(
        headless=headless,
        sandbox=bench.sandbox,
        contained=printable(environ.get("SANDBOX", ""))[:_MOST_NAMED],
        repository=any(os.path.lexists(each / ".git") for each in (cwd, *cwd.parents)),
        without=frozenset(
            section
            for variable, section in SECTIONS.items()
            if environ.get(variable, "").strip().lower() in OFF
        ),
    )
    prompt = SessionPrompt(facts, given)
    if environ.get("GEMINI_SYSTEM_MD") or environ.get("GEMINI_WRITE_SYSTEM_MD"):
        from alhena.agent.own_prompt import own_prompt, write_prompt

        if given is None:
            prompt.own, problem = own_prompt(bench.workspace, environ, trust)
            bench.warnings += (problem,) if problem else ()
        write_prompt(prompt.composed(bench), bench.workspace, environ)
    return prompt
