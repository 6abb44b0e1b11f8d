"""The settings of a command and of a session, and choices that later sessions remember."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.effective_settings import (
    FolderTrust,
    Place,
    UntrustedFolderError,
    open_place,
)
from alhena.config.home import config_home
from alhena.config.settings import CheckpointingSettings, Settings, with_model
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.streams import is_terminal, write_stderr
from alhena.policy.model import ApprovalMode
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.agent.toolset.options import SessionSpec


class SessionFolder:
    """The settings of a session's folder; `opened` reads them. `added` are more directories of its
    workspace, `model` the one that the person chose; `trust_command` is how to trust it."""

    def __init__(self, opened: Callable[[], Place], trust_command: str = "/trust") -> None:
        self.added: list[str] = []
        self.model = ""
        self.trust_command = trust_command
        self._opened = opened
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """The settings as they were read last."""
        return self._place or self.reread()

    def reread(self) -> Place:
        """Reads the settings again."""
        self._place = self._opened()
        return self._place


ACTING = {ApprovalMode.AUTO_EDIT: "auto_edit", ApprovalMode.YOLO: "yolo"}
"""Modes in which changes are made without asking, by their names on the command line."""


def place_here(
    *, skip_trust: bool = False, told: bool = True, extensions: tuple[str, ...] | None = None
) -> Place:
    """The settings of the working directory; what a person should know of them goes to stderr
    when `told`. `extensions` are the only ones to use, None for those that are enabled. Raises
    ConfigError, and InputError when there is no such directory."""
    place = open_place(
        current_directory(), os.environ, skip_trust=skip_trust, extensions=extensions
    )
    if told:
        tell(place.warnings)
    return place


def tell(warnings: Iterable[str]) -> None:
    """Warnings on stderr, a line each."""
    for warning in warnings:
        write_stderr(f"alhena: warning: {one_line(warning)}\n")


def workspace_roots(
    place: Place, given: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The workspace roots beside the working directory: those given, then those of the setting
    context.includeDirectories that are there; and a warning for each that is not."""
    roots, warnings = list(given), list[str]()
    for name in place.settings.context.include_directories:
        path = name
        if name == "~" or name.startswith("~/"):
            path = place.environ.get("HOME", "~") + name[1:]
        if os.path.isdir(place.cwd / path):
            roots.append(path)
        else:
            warnings.append(f"context.includeDirectories: there is no directory {name}.")
    return tuple(dict.fromkeys(roots)), tuple(warnings)


def require_trust(mode: ApprovalMode, cwd: Path, trust: FolderTrust) -> None:
    """Raises UntrustedFolderError for a mode that acts without asking in an untrusted folder."""
    if mode in ACTING and not trust.trusted:
        raise UntrustedFolderError(cwd, ACTING[mode], trust)


def refused_mode(arguments: RunArguments, place: Place) -> tuple[str, ...]:
    """A line on the mode that an attended session in an untrusted folder has not, if any."""
    mode = arguments.approval_mode or ApprovalMode(place.settings.general.default_approval_mode)
    if mode not in ACTING or place.trust.trusted:
        return ()
    return (
        f"Default mode instead of {ACTING[mode]}: this folder is not trusted. To trust it: /trust",
    )


def session_options(
    arguments: RunArguments, place: Place, *, attended: bool = False
) -> "SessionSpec":
    """The options of a session from a run's arguments and the settings of its place. In an
    untrusted folder a mode that acts without asking is the default one for an `attended` session.
    Raises ConfigError, UntrustedFolderError."""
    # Not at the top: the connection begins to open before the tools are loaded.
    from alhena.agent.toolset.options import (
        Client,
        ModelOptions,
        Permissions,
        RecordOptions,
        SessionSpec,
    )

    settings = with_model(place.settings, service_tier=arguments.service_tier)
    if arguments.small:
        settings = with_model(settings, prompt_size="small")
    if arguments.checkpointing:
        settings = with_checkpoints(settings)
    if arguments.mcp_servers is not None:
        mcp = msgspec.structs.replace(settings.mcp, allowed=arguments.mcp_servers)
        if not arguments.mcp_servers:
            mcp = msgspec.structs.replace(mcp, excluded=("*",))
        settings = msgspec.structs.replace(settings, mcp=mcp)
    roots, missing = workspace_roots(place, arguments.include_directories)
    mode = arguments.approval_mode or ApprovalMode(settings.general.default_approval_mode)
    if attended and mode in ACTING and not place.trust.trusted:
        mode = ApprovalMode.DEFAULT
    require_trust(mode, place.cwd, place.trust)
    return SessionSpec(
        place=msgspec.structs.replace(
            place, settings=settings, directories=roots, warnings=(*place.warnings, *missing)
        ),
        model=ModelOptions(
            name=arguments.model,
            fake_responses=arguments.fake_responses,
            fake_strict=arguments.fake_strict,
            record_responses=arguments.record_responses,
            full_context=arguments.all_files,
        ),
        permissions=Permissions(
            approval_mode=mode,
            may_act=place.trust.trusted,
            policy=arguments.policy_paths,
            allowed_tools=arguments.allowed_tools,
            sandbox=arguments.sandbox,
        ),
        client=Client(
            is_terminal=is_terminal(sys.stdin) and is_terminal(sys.stdout),
            facts={
                "output_format": arguments.output_format or settings.output.format,
                "debug_mode": arguments.debug,
            },
        ),
        record=RecordOptions(resume=arguments.resume, session_id=arguments.session_id),
        limits=arguments.limits,
    )


def with_checkpoints(settings: Settings) -> Settings:
    """These settings, with general.checkpointing.enabled."""
    kept = CheckpointingSettings(enabled=True)
    general = msgspec.structs.replace(settings.general, checkpointing=kept)
    return msgspec.structs.replace(settings, general=general)


_STATE = "alhena_state.json"


class SavedChoices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`demo`: demo mode was chosen, so access to a model is not asked for again. `named_settings`:
    keys without effect that a person has been told of."""

    demo: bool = False
    named_settings: tuple[str, ...] = ()


def load_choices(environ: Mapping[str, str]) -> SavedChoices:
    """The choices so far; none where the file cannot be used."""
    from alhena.system.errors import FileError
    from alhena.system.private_files import PrivateFiles

    try:
        data = PrivateFiles(config_home(environ)).read(_STATE)
        return SavedChoices() if data is None else msgspec.json.decode(data, type=SavedChoices)
    except (FileError, msgspec.DecodeError):
        return SavedChoices()


def save_choices(environ: Mapping[str, str], **changes: Any) -> None:
    """Adds choices. Raises FileError."""
    from alhena.system.private_files import PrivateFiles

    now = msgspec.structs.replace(load_choices(environ), **changes)
    PrivateFiles(config_home(environ)).write(_STATE, msgspec.json.encode(now))


def connect_early(place: Place, model: str | None) -> None:
    """Begins to open the connection of the first request, where the settings say to which service;
    returns at once. What is wrong with them is for the session to say."""
    from alhena.http.early import prepare_connection
    from alhena.models.catalogue import default_model
    from alhena.models.providers.select import ModelChoice, choose_generator, login_files

    settings, environ = place.settings, place.environ
    choice = ModelChoice(
        model=model or environ.get("GEMINI_MODEL") or settings.model.name or default_model(),
        environ=environ,
        settings=settings,
        private_files=partial(login_files, environ),
    )
    try:
        endpoint = getattr(choose_generator(choice).generator, "endpoint", None)
    except AlhenaError:
        return
    if endpoint is not None:
        prepare_connection(endpoint, environ)
