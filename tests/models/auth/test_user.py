"""Stored logins: used while valid, renewed once for all processes."""

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import AlhenaError, NetworkError, ServerFaultError
from alhena.models.auth.exchange import ExpiredLoginError
from alhena.models.auth.login import UserLogin
from alhena.models.auth.store import LoginStore
from alhena.models.auth.tokens import RenewedTokens
from alhena.models.errors import CredentialsError
from alhena.system.private_files import PrivateFiles
from tests.models.auth.kit import BrokenFiles, endpoint, keep, kept, user
from tests.support.disk import mode
from tests.support.google import CLIENT_ID, GoogleServer
from tests.support.server import Reply, json_reply


async def test_a_token_that_the_reference_kept_is_used_without_a_client(
    google: GoogleServer, home: Path
) -> None:
    before = keep(home, google.cached(expires_in=100)).read_bytes()
    login = user(google, home, client=False)
    assert (await login.renew()).value == kept(home)["access_token"]
    assert (home / "oauth_creds.json").read_bytes() == before
    assert google.requests == []
    assert [path.name for path in home.iterdir()] == ["oauth_creds.json"]


@pytest.mark.requirement("WIRE-16")
async def test_a_token_that_has_expired_is_renewed_and_kept(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1, other={"a": [1]}, refresh_token_expires_in=9))
    (home / "oauth_creds.json").chmod(0o644)
    token = await user(google, home).renew()
    found = kept(home)
    assert token.value == found["access_token"] == "ya29.token-2-very-secret"
    assert found["refresh_token"] == "1//kept-refresh-very-secret"
    assert found["id_token"] == "eyJ.id.very-secret"
    assert (found["other"], found["refresh_token_expires_in"]) == ({"a": [1]}, 9)
    assert token.expires_at == pytest.approx(found["expiry_date"] / 1000, abs=0.01)
    assert mode(home / "oauth_creds.json") == 0o600
    assert google.paths() == ["/token"]
    assert found["client_id"] == CLIENT_ID


@pytest.mark.parametrize("absurd", [1e308, 1e30, None])
async def test_a_lifetime_that_is_none_costs_no_renewal(
    google: GoogleServer, home: Path, absurd: float | None
) -> None:
    keep(home, google.cached(expires_in=-1))
    google.expires_in = absurd
    token = await user(google, home).renew()
    assert token.value == kept(home)["access_token"] == "ya29.token-2-very-secret"


async def test_what_another_process_renewed_is_taken_from_the_file(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=3000))
    tokens = RenewedTokens(user(google, home).renew)
    await tokens.token()
    keep(home, google.cached(expires_in=3000))
    assert await tokens.token(fresh=True) == "ya29.token-2-very-secret"
    assert google.requests == []


async def test_however_many_ask_it_is_renewed_once(google: GoogleServer, home: Path) -> None:
    keep(home, google.cached(expires_in=-1))
    tokens = RenewedTokens(user(google, home).renew)
    found = await asyncio.gather(*(tokens.token() for _ in range(30)))
    assert set(found) == {"ya29.token-2-very-secret"}
    assert google.paths() == ["/token"]


async def test_logins_that_share_a_home_renew_once(google: GoogleServer, home: Path) -> None:
    keep(home, google.cached(expires_in=-1))
    logins = [user(google, home) for _ in range(20)]
    found = await asyncio.gather(*(login.renew() for login in logins))
    assert {token.value for token in found} == {"ya29.token-2-very-secret"}
    assert google.paths() == ["/token"]
    assert [path.name for path in home.iterdir()] == ["oauth_creds.json"]


RENEW = """
import asyncio, os, sys
from pathlib import Path
from alhena.config.settings import OAuthSettings
from alhena.models.auth.login import signed_in
from alhena.system.private_files import PrivateFiles
found = signed_in(os.environ, PrivateFiles(Path(sys.argv[1])), OAuthSettings())
sys.stdin.readline()
print(asyncio.run(found.tokens.token()))
"""


@pytest.mark.requirement("WIRE-16")
async def test_processes_that_share_a_home_renew_once(google: GoogleServer, home: Path) -> None:
    keep(home, google.cached(expires_in=-1))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RENEW, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=google.environ,
            text=True,
        )
        for _ in range(4)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [await asyncio.to_thread(process.communicate) for process in running]
    assert {out.strip() for out, _ in found} == {"ya29.token-2-very-secret"}
    assert google.paths() == ["/token"]
    assert kept(home)["access_token"] == "ya29.token-2-very-secret"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, {}, ServerFaultError),
        (400, {"error": "invalid_request"}, CredentialsError),
        (401, {"error": "invalid_client"}, CredentialsError),
        (401, {"error": "unauthorized_client"}, CredentialsError),
        (403, {"error": "access_denied"}, CredentialsError),
        (302, {}, CredentialsError),
        (200, {"error": "nothing"}, ServerFaultError),
        (200, [], ServerFaultError),
    ],
)
async def test_a_renewal_that_fails_leaves_the_file_as_it_was(
    google: GoogleServer, home: Path, status: int, body: Any, kind: type[Exception]
) -> None:
    before = keep(home, google.cached(expires_in=-1)).read_bytes()
    google.reply(json_reply(body, status))
    login = user(google, home)
    with pytest.raises(kind) as caught:
        await login.renew()
    assert not isinstance(caught.value, ExpiredLoginError)
    assert (home / "oauth_creds.json").read_bytes() == before
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))
    assert (await login.renew()).value == "ya29.token-2-very-secret"


async def test_a_cut_or_silent_server_leaves_the_file_as_it_was(
    google: GoogleServer, home: Path
) -> None:
    before = keep(home, google.cached(expires_in=-1)).read_bytes()
    google.reply(Reply(pieces=[b'{"access_token": "half'], cut=True))
    with pytest.raises(AlhenaError):
        await user(google, home).renew()
    assert (home / "oauth_creds.json").read_bytes() == before


async def test_a_login_that_was_revoked_is_told_and_left_as_it_was(
    google: GoogleServer, home: Path
) -> None:
    before = keep(home, google.cached(expires_in=-1, client_id=CLIENT_ID)).read_bytes()
    google.refresh_tokens.clear()
    with pytest.raises(ExpiredLoginError, match="alhena auth login") as caught:
        await user(google, home).renew()
    assert caught.value.exit_code == 41
    assert (home / "oauth_creds.json").read_bytes() == before
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


async def test_a_login_of_another_client_is_not_tried_with_this_one(
    google: GoogleServer, home: Path
) -> None:
    before = keep(home, google.cached(expires_in=-1, client_id="other")).read_bytes()
    with pytest.raises(CredentialsError, match=r"another OAuth client.*alhena auth login"):
        await user(google, home).renew()
    assert (home / "oauth_creds.json").read_bytes() == before
    assert google.requests == []


async def test_a_renewed_login_that_cannot_be_written_goes_on_in_this_process(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1))
    told: list[str] = []
    client = user(google, home)._client
    login = UserLogin(LoginStore(BrokenFiles(home)), endpoint(google), client, warn=told.append)
    tokens = RenewedTokens(login.renew)
    assert await tokens.token() == "ya29.token-2-very-secret"
    assert await tokens.token(fresh=True) == "ya29.token-3-very-secret"
    assert len(told) == 2
    assert "could not be kept" in told[0]
    assert "very-secret" not in "".join(told)
    assert kept(home)["access_token"] == "ya29.token-1-very-secret"


async def test_a_lock_that_is_never_freed_is_not_waited_for_without_end(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with PrivateFiles(home).hold("oauth_creds.json") as held:
        assert held
        token = await user(google, home, sleep=sleep).renew()
    assert token.value == "ya29.token-2-very-secret"
    assert sum(slept) == pytest.approx(45, abs=1)


async def test_a_wait_for_the_lock_that_is_cancelled_leaves_nothing(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1))
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(3600)

    with PrivateFiles(home).hold("oauth_creds.json"):
        task = asyncio.create_task(user(google, home, sleep=sleep).renew())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [path.name for path in home.iterdir()] == ["oauth_creds.json"]
    assert (await user(google, home).renew()).value == "ya29.token-2-very-secret"


async def test_an_expired_login_without_a_client_says_what_is_missing(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1))
    with pytest.raises(CredentialsError, match=r"ALHENA_OAUTH_CLIENT_ID.*clientId") as caught:
        await user(google, home, client=False).renew()
    assert caught.value.exit_code == 41
    assert (home / "oauth_creds.json").exists()


async def test_an_expired_login_without_a_refresh_token_says_so(
    google: GoogleServer, home: Path
) -> None:
    keep(home, google.cached(expires_in=-1, refresh_token=""))
    with pytest.raises(CredentialsError, match=r"no refresh token.*alhena auth login"):
        await user(google, home).renew()
    assert google.requests == []


async def test_a_server_that_is_not_there_is_a_network_error(home: Path) -> None:
    with GoogleServer() as gone:
        keep(home, gone.cached(expires_in=-1))
        login = user(gone, home)
    with pytest.raises(NetworkError, match="ALHENA_OAUTH_TOKEN_URL"):
        await login.renew()
