"""Loopback stand-ins: an OAuth server that checks all it is told, and Code Assist."""

import hashlib
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse

CLIENT_ID = "1234-abc.apps.example"
CLIENT_SECRET = "GOCSPX-totally-secret-client-0123"
ADDRESS = "ada@example.com"
TIER = {"id": "standard-tier", "name": "Gemini Code Assist"}
Route = Callable[[Received], Reply]


class GoogleServer(ScriptedServer):
    """Answers by path. `consent` plays the person in the browser; `routes` and `reply` override."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.access_tokens: set[str] = set()
        self.given = 0
        self.load: dict[str, Any] = {"currentTier": TIER, "cloudaicompanionProject": "a-project"}
        self.routes: dict[str, Route] = {}
        self.expires_in: Any = 3599
        self.email: str | None = ADDRESS

    @property
    def environ(self) -> dict[str, str]:
        return {
            "ALHENA_OAUTH_CLIENT_ID": CLIENT_ID,
            "ALHENA_OAUTH_CLIENT_SECRET": CLIENT_SECRET,
            "ALHENA_OAUTH_AUTHORIZATION_URL": f"{self.url}/auth",
            "ALHENA_OAUTH_TOKEN_URL": f"{self.url}/token",
            "ALHENA_OAUTH_USERINFO_URL": f"{self.url}/userinfo",
            "CODE_ASSIST_ENDPOINT": self.url,
        }

    def consent(self, url: str) -> str:
        """Agrees to what an authorization URL asks for; the address the browser goes to next."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.url}/auth?")
        assert asked["client_id"] == CLIENT_ID
        assert asked["response_type"] == "code"
        assert asked["access_type"] == "offline"
        assert asked["code_challenge_method"] == "S256"
        assert asked["scope"].split() == [
            "https://www.googleapis.com/auth/cloud-platform",
            "https://www.googleapis.com/auth/userinfo.email",
            "https://www.googleapis.com/auth/userinfo.profile",
        ]
        code = f"4/0A-code-{len(self.codes)}-very-secret"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], 'code': code})}"

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def posted(self, path: str) -> list[Any]:
        """The JSON bodies sent to a path, in order."""
        return [request.json for request in self.requests if request.path == path]

    def give(self) -> str:
        """A new access token."""
        self.given += 1
        token = f"ya29.token-{self.given}-very-secret"
        self.access_tokens.add(token)
        return token

    def take(self, received: Received) -> Reply:
        self.requests.append(received)
        if self._replies:
            return self._replies.popleft()
        path = urlsplit(received.path).path
        if path in self.routes:
            return self.routes[path](received)
        if path == "/token":
            return self._token(received)
        bearer = received.headers.get("authorization", "").removeprefix("Bearer ")
        if bearer not in self.access_tokens:
            return json_reply({"error": {"code": 401, "message": f"bad token {bearer}"}}, 401)
        return self._authorized(path, received)

    def _authorized(self, path: str, received: Received) -> Reply:
        if path == "/userinfo":
            return json_reply({"email": self.email} if self.email else {}, 200)
        method = path.rpartition(":")[2]
        if method == "loadCodeAssist":
            return json_reply(self.load)
        if method == "retrieveUserQuota":
            bucket = {
                "modelId": "gemini-2.5-pro",
                "tokenType": "REQUESTS",
                "remainingFraction": 0.75,
                "resetTime": "2030-01-01T00:00:00Z",
            }
            return json_reply({"buckets": [bucket]})
        if method == "streamGenerateContent":
            return sse(answer("hello"))
        return json_reply({"error": {"code": 404, "message": f"no {path}"}}, 404)

    def _token(self, received: Received) -> Reply:
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        form = {name: values[0] for name, values in parse_qs(received.body.decode()).items()}
        if form["client_id"] != CLIENT_ID or form["client_secret"] != CLIENT_SECRET:
            return json_reply({"error": "invalid_client", "error_description": "Unknown."}, 401)
        answer = {"token_type": "Bearer", "expires_in": self.expires_in, "scope": "all"}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return bad_grant(form["refresh_token"])
            return json_reply(answer | {"access_token": self.give()})
        asked = self.codes.pop(form["code"], None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return bad_grant(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return bad_grant("the verifier")
        refresh = f"1//refresh-{len(self.refresh_tokens)}-very-secret"
        self.refresh_tokens.add(refresh)
        return json_reply(answer | {"access_token": self.give(), "refresh_token": refresh})

    def cached(self, *, expires_in: float, **other: Any) -> dict[str, Any]:
        """The reference's credentials file after a login at this server."""
        self.refresh_tokens.add("1//kept-refresh-very-secret")
        return {
            "access_token": self.give(),
            "refresh_token": "1//kept-refresh-very-secret",
            "scope": "openid all",
            "token_type": "Bearer",
            "id_token": "eyJ.id.very-secret",
            "expiry_date": int((time.time() + expires_in) * 1000),
        } | other


def bad_grant(what: str) -> Reply:
    return json_reply({"error": "invalid_grant", "error_description": f"Bad: {what}"}, 400)


def answer(text: str, finish: str | None = "STOP", **around: Any) -> dict[str, Any]:
    """A chunk of Code Assist."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}}
    if finish:
        candidate["finishReason"] = finish
    return {"response": {"candidates": [candidate]}, "traceId": "trace-1"} | around
