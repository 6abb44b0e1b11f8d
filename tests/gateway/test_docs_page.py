"""docs/gateway.md says what the code does."""

import re
from pathlib import Path

from alhena.frontends.cli.serve import serve_parser
from alhena.gateway.body import MB, GatewayLimits
from alhena.gateway.dialects import AnthropicDialect, GoogleDialect, OpenAiDialect
from alhena.gateway.faults import Fault, FaultKind
from tests.support.each import for_each

PAGE = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
ROWS = {
    "a bad request": FaultKind.INVALID,
    "no key, or a wrong one": FaultKind.UNAUTHENTICATED,
    "a page from elsewhere": FaultKind.FORBIDDEN,
    "no such model": FaultKind.NO_MODEL,
    "a body that comes too slowly": FaultKind.SLOW_REQUEST,
    "a body that is too large": FaultKind.TOO_LARGE,
    "too many requests at a time": FaultKind.BUSY,
    "the gateway stops": FaultKind.STOPPING,
    "a limit of the service": FaultKind.RATE_LIMIT,
    "its quota is spent": FaultKind.QUOTA,
    "the model has no room": FaultKind.OVERLOADED,
    "the service fails, cannot be reached or refuses the gateway's own credentials": (
        FaultKind.UPSTREAM
    ),
    "no answer in time": FaultKind.TIMEOUT,
}


@for_each(("words", "kind"), ROWS.items())
def test_the_table_of_errors_is_that_of_the_code(words: str, kind: FaultKind):
    fault = Fault(kind=kind, message="x")
    forms = [
        speech.error(fault) for speech in (AnthropicDialect(), OpenAiDialect(), GoogleDialect())
    ]
    openai = forms[1].body["error"]
    names = [
        forms[0].body["error"]["type"],
        openai["code"] or openai["type"],
        forms[2].body["error"]["status"],
    ]
    told = [f"{form.status} `{name}`" for form, name in zip(forms, names, strict=True)]
    assert f"| {words} | {' | '.join(told)} |" in PAGE


def test_every_kind_of_fault_has_a_form_in_every_dialect():
    for kind in FaultKind:
        for speech in (AnthropicDialect(), OpenAiDialect(), GoogleDialect()):
            assert 400 <= speech.error(Fault(kind=kind, message="x")).status < 600


def test_the_limits_are_those_of_the_code():
    limits = GatewayLimits()
    assert f"{limits.concurrent} requests at a time" in PAGE
    assert f"bodies of {limits.body_bytes // MB} MB" in PAGE
    assert f"{limits.bodies_bytes // MB} MB of them together" in PAGE
    assert (
        f"The head of a request has {limits.head_s:g} seconds, its body {limits.body_s:g}" in PAGE
    )
    assert f"no more than {limits.body_idle_s:g} between" in PAGE
    assert f"After {limits.ping_s:g} seconds of silence" in PAGE
    assert (limits.total_s, limits.stall_s, limits.stop_s) == (3600, 120, 10)


def test_the_options_it_names_are_those_of_the_command():
    known = {option for action in serve_parser()._actions for option in action.option_strings}
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) | {"-m"}
    assert named <= known
    assert {"--host", "--port", "--map", "--api-key", "--max-concurrent"} <= named
