"""Selects the authentication type and the generator of a session."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, assert_never

import msgspec

from alhena.config.settings import Settings
from alhena.errors import ConfigError
from alhena.models.catalogue import ANTHROPIC, DEMO, foreign_service, is_foreign_model
from alhena.models.errors import CredentialsError, NoSignInError
from alhena.models.generator import ContentGenerator
from alhena.models.retry import REPLAY, RetryingGenerator, RetryPolicy
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.http import Timeouts
    from alhena.http.addresses import Endpoint
    from alhena.models.auth.store import LoginFiles
    from alhena.models.service import ServiceOptions
from enum import StrEnum

from alhena.config.settings import AuthSettings


class AuthType(StrEnum):
    """The authentication types. CLOUD_SHELL is an older name of COMPUTE."""

    LOGIN = "oauth-personal"
    API_KEY = "gemini-api-key"
    VERTEX = "vertex-ai"
    COMPUTE = "compute-default-credentials"
    CLOUD_SHELL = "cloud-shell"
    GATEWAY = "gateway"


def auth_type(settings: AuthSettings, environ: Mapping[str, str]) -> AuthType | None:
    """The type selected in the settings, else by the environment, else the enforced one; None if
    unspecified.

    Raises CredentialsError for an unknown type, and when another type is enforced.
    """
    selected = _parse_auth_type(settings.selected_type, "selectedType")
    enforced = _parse_auth_type(settings.enforced_type, "enforcedType")
    current = selected or _of_environment(environ) or enforced
    if enforced is not None and current is not enforced:
        raise NoSignInError(
            f"The enforced authentication type is '{enforced}', but the current type is "
            f"'{current}'.",
            remedy=(
                "Change security.auth.selectedType, or the variables that ask for it; "
                "security.auth.enforcedType allows no other."
            ),
        )
    return current


def is_on(environ: Mapping[str, str], variable: str) -> bool:
    """True when a variable is "true" or "1"."""
    return environ.get(variable, "").strip().lower() in {"true", "1"}


def _of_environment(environ: Mapping[str, str]) -> AuthType | None:
    """The first type selected by variables, in the reference's order; GOOGLE_API_KEY comes last."""
    if is_on(environ, "GOOGLE_GENAI_USE_GCA"):
        return AuthType.LOGIN
    if is_on(environ, "GOOGLE_GENAI_USE_VERTEXAI"):
        return AuthType.VERTEX
    if environ.get("GOOGLE_GEMINI_BASE_URL", "").strip():
        return AuthType.GATEWAY
    if environ.get("GEMINI_API_KEY", "").strip():
        return AuthType.API_KEY
    if is_on(environ, "CLOUD_SHELL") or is_on(environ, "GEMINI_CLI_USE_COMPUTE_ADC"):
        return AuthType.COMPUTE
    return AuthType.API_KEY if environ.get("GOOGLE_API_KEY", "").strip() else None


def _parse_auth_type(word: str | None, key: str) -> AuthType | None:
    if not word:
        return None
    try:
        return AuthType(word)
    except ValueError:
        known = ", ".join(AuthType)
        raise NoSignInError(
            f"Invalid auth method selected: {word[:60]!r} in security.auth.{key}.",
            remedy=f"Known are {known}.",
        ) from None


_DEMO_NAMES = (DEMO, "rehearsal")  # the latter is an older name
KEY_PAGE = "https://aistudio.google.com/apikey"

_KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of the choice. `is_terminal`: a person sees the output. `retry`: the retry limits;
    None: no retries. `private_files` gives the files of the Google account's login; without it
    there is none. `tell` receives messages for a person during requests. `installation_id` gives
    the random id of this installation, sent if the settings allow it. `base_url`: address of the
    Gemini API or a service of another dialect, instead of the environment's. `headers`, by
    lower-case name, and `timeouts` are those of its requests.

    The repr does not show the environment, which contains the key.
    """

    model: str
    environ: Mapping[str, str]
    settings: Settings = Settings()
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    is_terminal: bool = False
    retry: RetryPolicy | None = None
    private_files: Callable[[], "LoginFiles"] | None = None
    tell: Callable[[str], None] | None = None
    installation_id: Callable[[], str] | None = None
    base_url: str | None = None
    headers: Mapping[str, str] = {}
    timeouts: "Timeouts | None" = None

    @property
    def connection(self) -> "ServiceOptions":
        """The headers and timeouts of its requests."""
        from alhena.models.service import ServiceOptions

        return ServiceOptions(headers=self.headers, timeouts=self.timeouts)

    def __repr__(self) -> str:
        return f"ModelChoice(model={self.model!r}, is_terminal={self.is_terminal})"


def login_files(environ: Mapping[str, str]) -> "LoginFiles":
    """The user's files, for logins that are kept among them."""
    from alhena.config.home import config_home
    from alhena.system.private_files import PrivateFiles

    return PrivateFiles(config_home(environ))


class ChosenGenerator(Value, frozen=True, kw_only=True):
    """The generator, its model name, and notices for a person. `auth_type` is the authentication
    type of `security.auth.selectedType`; None if none is needed. `speaks_gemini`: any Gemini model
    may be requested, not only this one. `private`: a server of the OpenAI form that is not
    OpenAI's. `owned`: the session closes the generator."""

    generator: ContentGenerator
    model: str
    speaks_gemini: bool = True
    notices: tuple[str, ...] = ()
    auth_type: str | None = None
    private: bool = False
    owned: bool = True


class RecordingWrapper(Protocol):
    """Wraps the generators of all sessions while a program records or replays."""

    def generator(
        self, choose: Callable[[], ChosenGenerator], model: str, cwd: str
    ) -> ChosenGenerator:
        """The generator of a session in the directory `cwd` instead of the one that `choose`
        returns."""
        ...


RECORDINGS: list[RecordingWrapper] = []
"""The recordings and replays of this process; the last one holds."""


def choose_generator(choice: ModelChoice) -> ChosenGenerator:
    """Selects the generator of a session.

    In this order: recorded responses; the demo model by its name; a service of another dialect by
    the prefix of the model's name (`openai:`, `openai-responses:`, `ollama:`, `anthropic:`); the
    transport selected by the settings or the environment (`auth_type`); the demo model for a person
    at a terminal. Raises CredentialsError when none is available, ConfigError or RecordingError for
    invalid values.
    """
    chosen = _choose(choice)
    require_tier(chosen, choice.settings.model.service_tier)
    generator = chosen.generator
    if choice.record_responses is not None:
        from alhena.models.providers.recorded import AnswerRecorder

        generator = AnswerRecorder(generator, choice.record_responses)
    if choice.retry is not None and chosen.model != DEMO:
        policy = choice.retry if choice.fake_responses is None else REPLAY
        generator = RetryingGenerator(generator, policy)
    return msgspec.structs.replace(chosen, generator=generator)


def require_tier(chosen: ChosenGenerator, tier: str | None) -> None:
    """Raises ConfigError for a service that has no such service tier."""
    service = ""
    if chosen.model.startswith(ANTHROPIC):
        service = "Anthropic"
    elif chosen.auth_type in {AuthType.LOGIN, AuthType.COMPUTE, AuthType.CLOUD_SHELL}:
        service = "Code Assist"
    if service and tier not in (None, "standard"):
        raise ConfigError(
            f"{service} has no service tier {tier!r} (model.serviceTier, --service-tier).",
            remedy="Leave it out, or choose a model of the Gemini API, Vertex AI or OpenAI.",
        )


def _choose(choice: ModelChoice) -> ChosenGenerator:
    if choice.fake_responses is not None:
        from alhena.models.providers.recorded import RecordedGenerator

        recorded = RecordedGenerator(choice.fake_responses, strict=choice.fake_strict)
        return ChosenGenerator(generator=recorded, model=choice.model)
    if is_demo(choice.model):
        return _demo()
    if is_foreign_model(choice.model):
        return _foreign(choice)
    auth = choice.settings.security.auth
    kind = auth_type(auth, choice.environ)
    match kind:
        case AuthType.API_KEY | AuthType.GATEWAY:
            return _gemini_api(choice, kind)
        case AuthType.VERTEX:
            return _vertex(choice)
        case AuthType.LOGIN | AuthType.COMPUTE | AuthType.CLOUD_SHELL:
            return _code_assist(choice, kind)
        case None:
            return _without_credentials(choice)
        case _:
            assert_never(kind)


def _foreign(choice: ModelChoice) -> ChosenGenerator:
    """A model of another service."""
    enforced = choice.settings.security.auth.enforced_type
    if enforced:
        raise CredentialsError(
            f"The enforced authentication type is '{enforced}'; a model of another service is "
            "not signed in to in that way.",
            remedy="Choose a Gemini model; security.auth.enforcedType allows no other.",
        )
    service, _, name = choice.model.partition(":")
    if not name.strip():
        raise CredentialsError(
            f"{choice.model!r} names no model.", remedy=f"Name one, such as {service}:NAME."
        )
    generator = _SERVICES[foreign_service(choice.model)](choice)
    return ChosenGenerator(
        generator=generator,
        model=choice.model,
        speaks_gemini=False,
        notices=_encryption_warnings(generator.endpoint, "the API key"),
        private=not getattr(generator, "is_openai", True),
    )


class OtherService(ContentGenerator, Protocol):
    """A service of another dialect."""

    @property
    def endpoint(self) -> "Endpoint":
        """Its address."""
        ...


def _anthropic(choice: ModelChoice) -> OtherService:
    from alhena.models.providers.anthropic_api import anthropic_from

    kept = choice.settings.model.prompt_cache
    cache = None if kept == "off" else kept
    return anthropic_from(choice.environ, choice.base_url, cache, choice.connection)


def _openai(choice: ModelChoice) -> OtherService:
    from alhena.models.providers.openai_compatible import openai_from

    return openai_from(choice.environ, choice.base_url, choice.connection)


def _ollama(choice: ModelChoice) -> OtherService:
    from alhena.models.providers.openai_compatible import ollama_from

    return ollama_from(choice.environ, choice.base_url, choice.connection)


_SERVICES: dict[str, Callable[[ModelChoice], OtherService]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "ollama": _ollama,
}
"""Service (`foreign_service`) -> its generator."""


def saved_key(choice: ModelChoice) -> str:
    """The key that was pasted at the first start; "" without one. Raises AlhenaError."""
    if choice.private_files is None:
        return ""
    from alhena.models.auth.store import load_key

    return load_key(choice.private_files())


def _without_credentials(choice: ModelChoice) -> ChosenGenerator:
    if saved_key(choice):
        return _gemini_api(choice, AuthType.API_KEY)
    if choice.is_terminal:
        notice = (
            "No API key found. Demo mode: answers come from fixed rules, not a model. "
            f"Set GEMINI_API_KEY ({KEY_PAGE}) for real answers."
        )
        return _demo(notice)
    raise NoSignInError(
        "no API key found (GEMINI_API_KEY is not set).",
        remedy=(
            f"Get one at {KEY_PAGE} and set GEMINI_API_KEY, or run alhena at a terminal to save "
            "it. Other ways: GOOGLE_GENAI_USE_GCA=true (Code Assist with a licence), "
            f"GOOGLE_GENAI_USE_VERTEXAI=true (Vertex AI), --model {DEMO} (no model)."
        ),
    )


def api_key(environ: Mapping[str, str], variables: tuple[str, ...] = _KEY_VARIABLES) -> str:
    """The key in the first of `variables` that is set, stripped; "" for none.

    Raises CredentialsError, which does not quote it, when the key does not fit in a header.
    """
    from alhena.wire.json_values import is_token

    for variable in variables:
        key = environ.get(variable, "").strip()
        if not key:
            continue
        if not is_token(key):
            raise CredentialsError(
                f"{variable} contains blanks, line breaks or characters that no key has.",
                remedy=f"Copy the key again ({KEY_PAGE}).",
            )
        return key
    return ""


def _gemini_api(choice: ModelChoice, kind: AuthType) -> ChosenGenerator:
    from alhena.models.providers.gemini_api import GeminiApi, service_from

    key = api_key(choice.environ) or saved_key(choice)
    based = bool(choice.base_url or choice.environ.get("GOOGLE_GEMINI_BASE_URL", "").strip())
    if kind is AuthType.GATEWAY and not based:
        raise CredentialsError(
            "A gateway is selected, and GOOGLE_GEMINI_BASE_URL does not say where it is.",
            remedy="Set it to the gateway's address, or change security.auth.selectedType.",
        )
    if not (key or based or choice.settings.security.auth.use_external):
        raise NoSignInError(
            "When using Gemini API, you must specify the GEMINI_API_KEY environment variable.",
            remedy=f"Set it ({KEY_PAGE}), or change security.auth.selectedType.",
        )
    service = service_from(choice.environ, key, choice.base_url)
    headers = {**_installation(choice), **service.headers, **choice.headers}
    service = msgspec.structs.replace(service, headers=headers)
    generator: ContentGenerator = GeminiApi(
        service, environ=choice.environ, timeouts=choice.timeouts
    )
    if based:
        generator = _of_either_form(generator, choice)
    return ChosenGenerator(
        generator=generator,
        model=choice.model,
        notices=_encryption_warnings(service.endpoint, "the API key"),
        auth_type=AuthType.API_KEY if key else AuthType.GATEWAY,
    )


def _vertex(choice: ModelChoice) -> ChosenGenerator:
    from alhena.models.providers.vertex import vertex_from
    from alhena.models.service import ServiceOptions

    settings = choice.settings
    key = api_key(choice.environ, ("GOOGLE_API_KEY",))
    told = {**settings.billing.vertex_ai.headers, **_installation(choice), **choice.headers}
    generator = vertex_from(
        choice.environ,
        key,
        external=settings.security.auth.use_external,
        connection=ServiceOptions(headers=told, timeouts=choice.timeouts),
    )
    return ChosenGenerator(
        generator=_of_either_form(generator, choice),
        model=choice.model,
        notices=_encryption_warnings(generator.endpoint, "the credentials"),
        auth_type=AuthType.VERTEX,
    )


def _code_assist(choice: ModelChoice, kind: AuthType) -> ChosenGenerator:
    from alhena.models.providers.code_assist import for_login, for_machine

    environ, oauth = choice.environ, choice.settings.security.auth.oauth
    try:
        if kind is AuthType.LOGIN:
            files = choice.private_files() if choice.private_files is not None else None
            generator = for_login(environ, files, oauth, choice.connection, tell=choice.tell)
        else:
            generator = for_machine(environ, choice.connection, tell=choice.tell)
    except CredentialsError as error:
        error.remedy = " ".join(filter(None, (error.remedy, _key_instead(choice))))
        raise
    return ChosenGenerator(
        generator=_of_either_form(generator, choice),
        model=choice.model,
        notices=_encryption_warnings(generator.endpoint, "the access token"),
        auth_type=kind,
    )


def _of_either_form(generator: ContentGenerator, choice: ModelChoice) -> ContentGenerator:
    """Wraps services that may only know the older form of declarations."""
    from alhena.models.providers.gemini_api import OlderSchemas

    return OlderSchemas(generator, choice.tell)


def _key_instead(choice: ModelChoice) -> str:
    """Explains the use of a set but unused key; "" without one."""
    if not choice.environ.get("GEMINI_API_KEY", "").strip():
        return ""
    if choice.settings.security.auth.selected_type:
        how = 'set security.auth.selectedType of settings.json to "gemini-api-key"'
    else:
        how = "unset GOOGLE_GENAI_USE_GCA"
    return f"To use GEMINI_API_KEY instead, {how}."


def _installation(choice: ModelChoice) -> dict[str, str]:
    """The header that identifies this installation, if usage statistics are on."""
    if choice.installation_id is None or not choice.settings.privacy.usage_statistics_enabled:
        return {}
    return {"x-gemini-api-privileged-user-id": choice.installation_id()}


def _encryption_warnings(endpoint: "Endpoint", what: str) -> tuple[str, ...]:
    """A warning about an address that is neither encrypted nor local."""
    from alhena.http.addresses import is_loopback

    if endpoint.secure or is_loopback(endpoint.host):
        return ()
    return (f"Requests to {endpoint.place} go unencrypted, with {what} and your files.",)


def is_demo(model: str) -> bool:
    """True for the demo model's names."""
    return model in _DEMO_NAMES


def _demo(*notices: str) -> ChosenGenerator:
    from alhena.models.providers.demo import DemoGenerator

    return ChosenGenerator(
        generator=DemoGenerator(), model=DEMO, speaks_gemini=False, notices=notices
    )
