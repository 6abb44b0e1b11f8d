"""`alhena serve`: the gateway, until a signal ends it."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from alhena.errors import ConfigError, UsageError
from alhena.frontends.shared.arguments import Parser
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.streams import write_stderr, write_stdout
from alhena.http.addresses import is_loopback
from alhena.models.catalogue import DEMO, foreign_service
from alhena.models.providers.select import (
    ChosenGenerator,
    ModelChoice,
    choose_generator,
    is_demo,
    login_files,
)
from alhena.models.retry import RetryPolicy
from alhena.wire.json_values import is_token

if TYPE_CHECKING:
    from alhena.agent.chat import SessionModels
    from alhena.config.effective_settings import Place
    from alhena.gateway.upstream import Upstream

KEY_VARIABLE = "ALHENA_GATEWAY_KEY"
PORT = 8080
_STDERR = 2
_LOG_S = 1.0
"""Time the reader of the log has at the end."""
_SWITCH_S = 0.001
"""Longest time a thread that reads a large body may keep the interpreter to itself."""
RETRIES = RetryPolicy(max_attempts=3, initial_s=1.0, max_s=8.0, broken_attempts=2, max_wait_s=20.0)
"""Clients wait themselves, and know better for how long."""

DESCRIPTION = """\
Serves the model over HTTP in four API forms:

  POST /v1/messages, /v1/messages/count_tokens       Anthropic
  POST /v1/chat/completions, /v1/responses,          OpenAI
       /v1/embeddings
  GET  /v1/models
  POST /v1beta/models/NAME:generateContent,          Gemini
       :streamGenerateContent, :countTokens, :embedContent
  GET  /healthz

Prints the address on standard output once it listens, and a line of JSON for each request on
standard error.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena serve ARGV`; returns the exit code when a signal has ended it."""
    parser = serve_parser()
    if "-h" in argv or "--help" in argv:
        write_stdout(parser.format_help())
        return 0
    found = parser.parse_args(argv)
    if not found.host.strip():
        raise UsageError("--host is empty.", remedy="Give an address, or leave the option out.")
    key = _key(found.api_key, os.environ)
    if not key and not is_loopback(found.host):
        raise UsageError(
            f"on {found.host} others can reach the gateway, so that it needs a key.",
            remedy=f"Give one by --api-key or {KEY_VARIABLE}, or serve on 127.0.0.1.",
        )
    named = _mapping(found.map)
    _require_extra()
    from alhena.agent.chat import SessionModels

    place = place_here()
    models = SessionModels(found.model, place.environ, place.settings)
    chosen = _generator(found, models, place)
    _require_service(named, chosen.model)
    for notice in chosen.notices:
        write_stderr(f"alhena: {notice}\n")
    _serve(found, _upstream(chosen, models, named, place), key)
    return 0


def serve_parser() -> Parser:
    """The parser of `alhena serve`."""
    parser = Parser(
        prog="alhena serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on; 127.0.0.1 if not given")
    add("--port", type=_port, default=PORT, help=f"the port ({PORT}); 0 takes a free one")
    add("-m", "--model", metavar="NAME", help="the model that answers, as in a run")
    add(
        "--map",
        action="append",
        default=[],
        metavar="NAME=MODEL",
        help="the model that answers for a name that clients use; may be repeated",
    )
    add("--api-key", metavar="KEY", help=f"the key that clients must show; or {KEY_VARIABLE}")
    add("--max-concurrent", type=_count, metavar="N", help="requests answered at a time (256)")
    add("--max-body-mb", type=_count, metavar="MB", help="the largest body of a request (32)")
    add("--fake-responses", metavar="FILE", help="answer from recorded responses, in order")
    add("--fake-responses-non-strict", metavar="FILE", help="the same, matched by method")
    add("--record-responses", metavar="FILE", help="append every response to FILE")
    add("-d", "--debug", action="store_true", help="show tracebacks")
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no port")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number above 0")
    return int(text)


def _key(given: str | None, environ: Mapping[str, str]) -> str:
    key = environ.get(KEY_VARIABLE) if given is None else given
    if key is not None and not is_token(key.strip()):
        raise UsageError(
            f"{KEY_VARIABLE if given is None else '--api-key'} is no key that a header can hold.",
            remedy="Make a key of letters and digits, or leave it out.",
        )
    return (key or "").strip()


def _mapping(given: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for entry in given:
        name, sign, model = (part.strip() for part in entry.partition("="))
        if not sign or not name or not model:
            raise UsageError(
                f"--map {entry[:60]!r} is not of the form NAME=MODEL.", remedy="Write it like that."
            )
        named[name] = model
    return named


def _require_service(named: Mapping[str, str], model: str) -> None:
    """Raises for a model of another service than that of `model`, which alone is asked."""
    own = _service_of(model)
    for name, other in named.items():
        if _service_of(other) not in {"", own}:
            raise UsageError(
                f"--map {name[:60]}={other[:60]} is of another service than {model}.",
                remedy="Name a model of that one, or start another gateway.",
            )


def _service_of(model: str) -> str:
    """The service that a name says beside that of the model, if it says one."""
    if is_demo(model):
        return DEMO
    return foreign_service(model)


def _require_extra() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        from alhena.distribution import install_command

        raise ConfigError(
            f"`alhena serve` needs {' and '.join(missing)}, which the base install leaves out.",
            remedy=f"Install what is missing: {install_command('gateway')}",
            page="gateway",
        )


def _generator(
    found: argparse.Namespace, models: "SessionModels", place: "Place"
) -> ChosenGenerator:
    from alhena.agent.session_factory import installation_number

    environ = place.environ
    return choose_generator(
        ModelChoice(
            model=models.name,
            environ=environ,
            settings=place.settings,
            fake_responses=found.fake_responses or found.fake_responses_non_strict,
            fake_strict=not found.fake_responses_non_strict,
            record_responses=found.record_responses,
            retry=RETRIES,
            private_files=partial(login_files, environ),
            tell=lambda text: write_stderr(f"alhena: {text}\n"),
            installation_id=partial(installation_number, environ),
        )
    )


def _upstream(
    chosen: ChosenGenerator, models: "SessionModels", named: Mapping[str, str], place: "Place"
) -> "Upstream":
    from alhena.agent.toolset.model_list import open_list
    from alhena.gateway.upstream import ModelNames, Upstream
    from alhena.models.served import ModelRenewal

    served = open_list(chosen.generator, place.environ)
    names = ModelNames(
        chosen.model,
        named,
        gemini=chosen.speaks_gemini,
        chosen=chosen.speaks_gemini and chosen.model in models.chosen,
    )
    renewal = None if served is None else ModelRenewal(served.models)
    return Upstream(chosen.generator, names, place.settings.model.service_tier, renewal)


def _serve(found: argparse.Namespace, upstream: "Upstream", key: str) -> None:
    from alhena.gateway.access_log import LogWriter
    from alhena.gateway.app import Guard, gateway_app
    from alhena.gateway.body import MB, Closing, GatewayLimits
    from alhena.gateway.exchange import AnswerTerms
    from alhena.gateway.server import GatewayServer, listening_socket

    limits = GatewayLimits()
    limits = GatewayLimits(
        concurrent=found.max_concurrent or limits.concurrent,
        body_bytes=(found.max_body_mb or limits.body_bytes // MB) * MB,
        bodies_bytes=max(limits.bodies_bytes, (found.max_body_mb or 0) * MB),
    )
    log = LogWriter(_write_log)
    terms = AnswerTerms(limits, Closing())
    app = gateway_app(upstream, Guard(key), terms, log.put)
    listener = listening_socket(found.host, found.port)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    server = GatewayServer(
        app,
        terms,
        started=lambda: write_stdout(f"{address}\n"),
        log=log.put,
        signals=True,
    )

    async def until_stopped() -> None:
        try:
            await server.serve(sockets=[listener])
        finally:
            await upstream.aclose()

    sys.setswitchinterval(_SWITCH_S)
    try:
        asyncio.run(until_stopped())
    finally:
        log.close(_LOG_S)


def _write_log(line: str) -> None:
    """Writes to standard error without the buffer of `sys.stderr`, whose lock a thread that is
    held up here would keep when the process ends."""
    data = memoryview(line.encode("utf-8", "replace"))
    try:
        while data:
            data = data[os.write(_STDERR, data) :]
    except OSError:
        return  # there is nowhere else to say it
