"""`alhena wire convert FILE`: a request of one dialect in another."""

import argparse
from typing import Any

import msgspec

from alhena.errors import InputError
from alhena.frontends.cli.wire_body import WireParser, read_body
from alhena.frontends.streams import write_json
from alhena.wire.calls import CallIds
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.plain import as_object

DIALECTS = ("gemini", "anthropic", "openai")


class _Asked(argparse.Namespace):
    """`alhena wire convert …`, read."""

    source: str
    target: str
    model: str | None
    file: str


def run(argv: list[str]) -> int:
    """Carries out `alhena wire convert ARGV`; returns the exit code."""
    parser = WireParser("convert")
    parser.add_argument("--from", dest="source", choices=DIALECTS, required=True)
    parser.add_argument("--to", dest="target", choices=DIALECTS, required=True)
    parser.add_argument("--model")
    parser.add_argument("file", metavar="FILE")
    asked = parser.parse_args(argv, namespace=_Asked())
    body = read_body(asked.file)
    try:
        request = _read(asked, body)
    except DialectError as error:
        raise InputError(
            f"{asked.file}: {error.message}",
            remedy=error.remedy or f"Give a request as {asked.source} takes it.",
        ) from error
    write_json(_write(asked.target, request))
    return 0


def _read(asked: _Asked, body: object) -> DialectRequest:
    if asked.source == "gemini":
        named = (as_object(body) or {}).get("model")
        model = asked.model or (named if isinstance(named, str) else "")
        return gemini.read_request(body, model)
    read = anthropic.read_request if asked.source == "anthropic" else openai.read_request
    request = read(body)
    return msgspec.structs.replace(request, model=asked.model or request.model)


def _write(target: str, request: DialectRequest) -> dict[str, Any]:
    if target == "gemini":
        return gemini.write_request(request)
    new_id = CallIds("call").next
    write = anthropic.write_request if target == "anthropic" else openai.write_request
    return write(request, new_id=new_id)
