"""Google's credentials as files, and readers of what is sent for them."""

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.server import Received

REFRESH = "1//refresh-token-of-somebody"
CLIENT_SECRET = "client-secret-of-gcloud"
ACCESS = "ya29.access-token-of-somebody"
GRANT = {"access_token": ACCESS, "expires_in": 3599, "token_type": "Bearer"}


def user_info(url: str, **more: Any) -> dict[str, Any]:
    """A credentials file of `gcloud auth application-default login`."""
    return {
        "type": "authorized_user",
        "client_id": "client.apps.example",
        "client_secret": CLIENT_SECRET,
        "refresh_token": REFRESH,
        "token_uri": f"{url}/token",
    } | more


class Account:
    """A service account with a key of its own."""

    email = "robot@my-project.iam.example"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.pem = pem.decode("ascii")

    def info(self, url: str, **more: Any) -> dict[str, Any]:
        """Its key file."""
        return {
            "type": "service_account",
            "project_id": "my-project",
            "private_key_id": "key-1",
            "private_key": self.pem,
            "client_email": self.email,
            "token_uri": f"{url}/token",
        } | more

    def claims(self, assertion: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and claims of an assertion. Raises when its signature is not the account's."""
        head, claims, signature = assertion.split(".")
        self._key.public_key().verify(
            decoded(signature), f"{head}.{claims}".encode("ascii"), padding.PKCS1v15(), SHA256()
        )
        return json.loads(decoded(head)), json.loads(decoded(claims))


def decoded(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))


def form_of(request: Received) -> dict[str, str]:
    """The fields of a form that was posted."""
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    return {name: value for name, [value] in parse_qs(request.body.decode("ascii")).items()}


def written(path: Path, info: Any) -> str:
    """Writes a credentials file; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(info), encoding="utf-8")
    return str(path)
