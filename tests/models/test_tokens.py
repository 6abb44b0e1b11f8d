"""Access tokens are renewed once for all who wait, and in time."""

import asyncio
from collections.abc import Callable

import pytest

from alhena.errors import ModelError, NetworkError, ServerFaultError
from alhena.models.auth.tokens import (
    EARLY,
    AccessToken,
    BearerAccess,
    FixedToken,
    RenewedTokens,
    checked_token,
)
from alhena.models.errors import CredentialsError

SECRET = "ya29.secret-token"


class Issuer:
    """Gives out tokens `t1`, `t2` … that hold for `life` seconds of a clock that stands still until
    it is moved. `fault` is raised instead while it is set; with `gate` each renewal waits for it."""

    def __init__(self, life: float | None = 3600.0) -> None:
        self.now = 1000.0
        self.life = life
        self.count = 0
        self.fault: ModelError | None = None
        self.gate: asyncio.Event | None = None
        self.started = 0
        self.tokens = RenewedTokens(self.renew, now=lambda: self.now)

    async def renew(self) -> AccessToken:
        self.started += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.count += 1
        expires_at = None if self.life is None else self.now + self.life
        return AccessToken(f"t{self.count}", expires_at)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0)


async def test_a_token_is_kept_until_shortly_before_it_expires():
    issuer = Issuer()
    assert await issuer.tokens.token() == "t1"
    issuer.now += 3600 - EARLY - 1
    assert await issuer.tokens.token() == "t1"
    issuer.now += 2
    assert await issuer.tokens.token() == "t2"
    assert issuer.count == 2


async def test_a_token_without_an_expiry_is_kept():
    issuer = Issuer(life=None)
    assert await issuer.tokens.token() == "t1"
    issuer.now += 1e9
    assert await issuer.tokens.token() == "t1"


async def test_a_fresh_token_is_a_new_one():
    issuer = Issuer()
    assert await issuer.tokens.token() == "t1"
    assert await issuer.tokens.token(fresh=True) == "t2"
    assert await issuer.tokens.token() == "t2"


@pytest.mark.parametrize("fresh", [False, True])
async def test_many_who_ask_at_once_get_one_renewal(fresh: bool):
    issuer = Issuer()
    issuer.gate = asyncio.Event()
    waiting = [asyncio.create_task(issuer.tokens.token(fresh=fresh)) for _ in range(50)]
    await until(lambda: issuer.started == 1)
    issuer.gate.set()
    assert await asyncio.gather(*waiting) == ["t1"] * 50
    assert issuer.started == 1


async def test_who_gives_up_does_not_take_the_token_from_the_others():
    issuer = Issuer()
    issuer.gate = asyncio.Event()
    first = asyncio.create_task(issuer.tokens.token())
    await until(lambda: issuer.started == 1)
    second = asyncio.create_task(issuer.tokens.token())
    first.cancel()
    issuer.gate.set()
    assert await second == "t1"
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("fault", [NetworkError("no way"), ServerFaultError("too many")])
async def test_a_token_that_still_holds_is_used_when_no_new_one_is_to_be_had(fault: ModelError):
    issuer = Issuer()
    await issuer.tokens.token()
    issuer.fault = fault
    issuer.now += 3600 - 1
    assert await issuer.tokens.token() == "t1"
    issuer.now += 2
    with pytest.raises(type(fault)):
        await issuer.tokens.token()
    issuer.fault = None
    assert await issuer.tokens.token() == "t2"


async def test_a_fresh_token_that_is_not_to_be_had_is_an_error():
    issuer = Issuer()
    await issuer.tokens.token()
    issuer.fault = NetworkError("no way")
    with pytest.raises(NetworkError):
        await issuer.tokens.token(fresh=True)


async def test_refused_credentials_are_told_even_while_the_old_token_holds():
    issuer = Issuer()
    await issuer.tokens.token()
    issuer.fault = CredentialsError("revoked")
    issuer.now += 3600 - 1
    with pytest.raises(CredentialsError, match="revoked"):
        await issuer.tokens.token()


def test_one_source_serves_event_loops_one_after_the_other():
    issuer = Issuer()

    async def ask_twice() -> list[str]:
        issuer.gate, before = asyncio.Event(), issuer.started
        waiting = [asyncio.create_task(issuer.tokens.token(fresh=True)) for _ in range(3)]
        await until(lambda: issuer.started > before)
        issuer.gate.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(ask_twice()) == ["t1"] * 3
    assert asyncio.run(ask_twice()) == ["t2"] * 3


async def test_after_a_refusal_a_token_that_another_request_has_renewed_is_taken():
    issuer = Issuer()
    access = BearerAccess(issuer.tokens, remedy="Sign in.", quota_project="charged")
    first = await access.headers()
    assert first == {"authorization": "Bearer t1", "x-goog-user-project": "charged"}
    second = await access.renew_headers(first)
    assert second is not None
    assert second["authorization"] == "Bearer t2"
    assert await access.renew_headers(first) == second
    assert issuer.count == 2


async def test_a_fixed_token_is_not_tried_again():
    access = BearerAccess(FixedToken(SECRET), remedy="Set a new one.")
    assert await access.renew_headers(await access.headers()) is None


def test_a_token_does_not_show():
    assert SECRET not in repr(AccessToken(SECRET, 1.0))
    assert SECRET not in repr(FixedToken(SECRET))


@pytest.mark.parametrize("text", ["", " ", "a b", "a\nb", "s\u00e9cret-token", "a\x00b"])
def test_a_token_that_no_header_can_carry_is_refused_unquoted(text: str):
    with pytest.raises(CredentialsError, match="SOME_TOKEN") as caught:
        checked_token(text, "SOME_TOKEN")
    assert caught.value.exit_code == 41
    assert str(caught.value).isprintable()
    assert not text.strip() or text not in str(caught.value)


def test_blanks_around_a_token_are_none_of_it():
    assert checked_token(f" {SECRET}\r\n", "SOME_TOKEN") == SECRET
