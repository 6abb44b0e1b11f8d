"""Which generator answers a session."""

from collections.abc import Mapping

import msgspec

from alhena.models.errors import CredentialsError
from alhena.models.generator import ContentGenerator

REHEARSAL = "rehearsal"
KEY_PAGE = "https://aistudio.google.com/apikey"

_OTHER_TRANSPORTS = {
    "GOOGLE_GENAI_USE_GCA": "signing in with a Google account (Code Assist)",
    "GOOGLE_GENAI_USE_VERTEXAI": "Vertex AI",
}


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's generator depends on. `is_terminal`: a person sees what is printed.

    The environment, which holds the key, does not show in the repr.
    """

    model: str
    environ: Mapping[str, str]
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    is_terminal: bool = False

    def __repr__(self) -> str:
        return f"ModelChoice(model={self.model!r}, is_terminal={self.is_terminal})"


class ChosenGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers, under which model name, and the lines a person should see about it. `auth_type`
    is how it signs in, in the words of `security.auth.selectedType`; None where it need not."""

    generator: ContentGenerator
    model: str
    notices: tuple[str, ...] = ()
    auth_type: str | None = None


def choose_generator(choice: ModelChoice) -> ChosenGenerator:
    """The generator of a session.

    In this order: recorded responses; the rehearsal by its name; the Gemini API when a key or a
    base URL is set; the rehearsal for a person at a terminal. Raises CredentialsError when there
    is no way to an answer, ConfigError or RecordingError when what is named cannot be used.
    """
    chosen = _choose(choice)
    if choice.record_responses is None:
        return chosen
    from alhena.models.recorder import Recorder

    recorder = Recorder(chosen.generator, choice.record_responses)
    return msgspec.structs.replace(chosen, generator=recorder)


def _choose(choice: ModelChoice) -> ChosenGenerator:
    if choice.fake_responses is not None:
        from alhena.models.recorded import RecordedGenerator

        recorded = RecordedGenerator(choice.fake_responses, strict=choice.fake_strict)
        return ChosenGenerator(generator=recorded, model=choice.model)
    if choice.model == REHEARSAL:
        return _rehearsal()
    for variable, transport in _OTHER_TRANSPORTS.items():
        if choice.environ.get(variable, "").strip().lower() in {"true", "1"}:
            raise CredentialsError(
                f"{variable} asks for {transport}, which this version cannot do yet.",
                remedy=f"Unset it and set GEMINI_API_KEY ({KEY_PAGE}).",
            )
    key = api_key(choice.environ)
    if key or choice.environ.get("GOOGLE_GEMINI_BASE_URL", "").strip():
        return _gemini_api(choice, key)
    if choice.is_terminal:
        notice = (
            "No credentials are set, so a rehearsal answers: fixed rules, no language model. "
            f"Set GEMINI_API_KEY ({KEY_PAGE}) for real answers."
        )
        return _rehearsal(notice)
    raise CredentialsError(
        "no credentials: GEMINI_API_KEY is not set.",
        remedy=(
            f"Set it ({KEY_PAGE}), or answer without a model by --model {REHEARSAL} "
            "or --fake-responses FILE."
        ),
    )


def api_key(environ: Mapping[str, str]) -> str:
    """The key of GEMINI_API_KEY or else GOOGLE_API_KEY, without blanks around it; "" when unset.

    Raises CredentialsError, which does not quote it, when the key cannot be sent in a header.
    """
    from alhena.models.endpoint import is_header_value

    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        key = environ.get(variable, "").strip()
        if not key:
            continue
        if not is_header_value(key) or " " in key:
            raise CredentialsError(
                f"{variable} holds blanks, line breaks or characters that no key has.",
                remedy=f"Copy the key again ({KEY_PAGE}).",
            )
        return key
    return ""


def _gemini_api(choice: ModelChoice, key: str) -> ChosenGenerator:
    from alhena.models.endpoint import is_loopback
    from alhena.models.gemini_api import GeminiApi, service_from

    service = service_from(choice.environ, key)
    notices: tuple[str, ...] = ()
    if not service.endpoint.secure and not is_loopback(service.endpoint.host):
        place = service.endpoint.place
        notices = (f"Requests to {place} go unencrypted, with the API key and your files.",)
    generator = GeminiApi(service, environ=choice.environ)
    return ChosenGenerator(
        generator=generator, model=choice.model, notices=notices, auth_type="gemini-api-key"
    )


def _rehearsal(*notices: str) -> ChosenGenerator:
    from alhena.models.rehearsal.generator import RehearsalGenerator

    return ChosenGenerator(generator=RehearsalGenerator(), model=REHEARSAL, notices=notices)
