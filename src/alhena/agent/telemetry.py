"""Opens the telemetry of a session, if enabled."""

import asyncio
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec

from alhena.agent.run import EventChannel, settled
from alhena.agent.toolset.workbench import Workbench
from alhena.config.home import installation_id_path
from alhena.config.settings import Settings
from alhena.models.select import ChosenGenerator
from alhena.telemetry.options import TelemetryOptions, installation_id
from alhena.telemetry.records import Record, Redaction, Translation
from alhena.telemetry.telemetry import Form, Origin, OutFile, Telemetry

NOWHERE = (
    "telemetry: it is enabled, but telemetry.outfile names no file; this version writes to files "
    "only, so nothing is recorded."
)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Session data for telemetry. `facts`: a front end's own, for the config record."""

    session_id: str
    environ: Mapping[str, str]
    settings: Settings
    chosen: ChosenGenerator
    bench: Workbench
    facts: Mapping[str, str | bool] = {}


def open_session_telemetry(
    options: TelemetryOptions, told: Told, channel: EventChannel
) -> Telemetry | None:
    """Opens telemetry and subscribes it to the events. None if the file cannot be written, with a
    warning of the workbench."""
    if options.outfile is None:
        told.bench.warnings += (NOWHERE,)
        return None
    try:
        outfile = OutFile(options.outfile)
    except OSError as error:
        reason = f"cannot write to {options.outfile}: {error.strerror or error}"
        told.bench.warnings += (f"telemetry: {reason}; nothing is recorded.",)
        return None
    number, problem = installation_id(installation_id_path(told.environ))
    if problem:
        reason = f"the installation's id cannot be kept: {problem}"
        told.bench.warnings += (f"telemetry: {reason}.",)
    origin = Origin(
        session_id=told.session_id,
        installation_id=number,
        interactive=told.bench.context.interactive,
        auth_type=told.chosen.auth_type,
    )
    telemetry = Telemetry(
        outfile,
        Translation(Redaction(told.environ), texts=options.texts),
        Form(origin),
        name=str(options.outfile),
    )
    telemetry.record(config_record(told, texts=options.texts))
    channel.subscribe(telemetry.feed)
    return telemetry


def config_record(told: Told, *, texts: bool) -> Record:
    """The record of the session's configuration."""
    settings = told.settings
    attributes: dict[str, Any] = {
        "model": told.chosen.model,
        "embedding_model": "",
        "sandbox_enabled": bool(told.bench.sandbox),
        "core_tools_enabled": ",".join(settings.tools.core or ()),
        "approval_mode": told.bench.modes.mode.value,
        "api_key_enabled": told.chosen.auth_type == "gemini-api-key",
        "vertex_ai_enabled": told.chosen.auth_type == "vertex-ai",
        "log_user_prompts_enabled": texts,
        "file_filtering_respect_git_ignore": True,
        "debug_mode": False,
        "mcp_servers": ",".join(settings.mcp_servers),
        "mcp_servers_count": len(settings.mcp_servers),
        "output_format": "text",
        "extensions": "",
        "extensions_count": 0,
        "extension_ids": "",
        "worktree_active": False,
    }
    return Record("config", "CLI configuration loaded.", attributes | dict(told.facts))


async def flushed(telemetry: Telemetry) -> str | None:
    """Flushes telemetry; reports once why the file is incomplete."""
    await settled(asyncio.ensure_future(asyncio.to_thread(telemetry.flush)))
    return telemetry.take_problem()


async def finish(telemetry: Telemetry) -> None:
    """Closes telemetry. A problem is issued as a RuntimeWarning, because no reader of events is
    left."""
    await settled(asyncio.ensure_future(asyncio.to_thread(telemetry.close)))
    problem = telemetry.take_problem()
    if problem is not None:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)
