"""Code Assist as tests ask it."""

from typing import Any

from alhena.models.auth.tokens import BearerAccess, FixedToken, TokenSource
from alhena.models.providers.code_assist import CodeAssistGenerator, code_assist
from alhena.wire.content import Content, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from tests.support.google import GoogleServer

MODEL = "gemini-2.5-pro"
SESSION = "sess-123"
PROMPT = "sess-123#turn-4"


class Slept:
    """Sleeps no time; `seconds` are those that were asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def bearer(tokens: TokenSource) -> BearerAccess:
    return BearerAccess(tokens, remedy="Sign in again: alhena auth login.")


def generator(
    google: GoogleServer, *, sleep: Any = None, tell: Any = None, **environ: str
) -> CodeAssistGenerator:
    return code_assist(
        google.environ | environ,
        bearer(FixedToken(google.give())),
        sleep=sleep or Slept(),
        tell=tell,
    )


def asked(*contents: Content, **config: Any) -> GenerateContentRequest:
    return GenerateContentRequest(
        model=MODEL,
        contents=tuple(map(EncodedContent, contents or (text_content("user", "hi"),))),
        config=GenerateContentConfig(**config),
        prompt_id=PROMPT,
        session_id=SESSION,
    )
