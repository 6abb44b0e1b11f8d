"""The files of a login, in the reference's format."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.models.auth.store import LoginStore, OAuthCredentials, credentials_of
from alhena.models.errors import CredentialsError
from alhena.system.private_files import PrivateFiles
from tests.models.auth.kit import accounts, keep, kept

REFERENCE = {
    "access_token": "ya29.a0-x_y.z",
    "scope": "openid https://www.googleapis.com/auth/cloud-platform",
    "token_type": "Bearer",
    "id_token": "eyJ.a.b",
    "expiry_date": 1763720000123,
    "refresh_token": "1//04refresh",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_what_the_reference_kept_is_read_and_written_back_the_same(home: Path) -> None:
    keep(home, REFERENCE)
    store = LoginStore(PrivateFiles(home))
    found = store.load()
    assert found is not None
    assert found.expires_at == 1763720000.123
    store.save(found)
    assert kept(home) == REFERENCE
    assert (home / "oauth_creds.json").read_text(encoding="utf-8").startswith('{\n  "')


@given(st.dictionaries(st.sampled_from([*REFERENCE, "other"]), json_values))
def test_any_object_is_read_without_a_crash_and_what_is_not_known_survives(
    fields: dict[str, Any],
) -> None:
    found = credentials_of(fields)
    for token in found.secrets:
        assert token.isascii()
        assert "\n" not in token
    assert found.other == {"other": fields["other"]} if "other" in fields else not found.other


@pytest.mark.parametrize(
    "content", [b"", b"nul", b"[]", b'"x"', b"\xff\xfe{}", b"{}", b"[" * 100_000, b'{"a":1}']
)
def test_a_damaged_file_is_told_with_the_remedy(home: Path, content: bytes) -> None:
    (home / "oauth_creds.json").write_bytes(content)
    with pytest.raises(CredentialsError, match=r"oauth_creds\.json.*alhena auth login"):
        LoginStore(PrivateFiles(home)).load()


def test_nobody_has_signed_in_where_there_is_no_file(home: Path) -> None:
    store = LoginStore(PrivateFiles(home / "missing"))
    assert store.load() is None
    assert store.account() is None
    assert not store.forget()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("token", ["a\nb", "a\r\nX-Evil: 1", "tök", "", 5, None, ["a"]])
def test_a_token_that_no_header_can_carry_counts_as_absent(home: Path, token: Any) -> None:
    keep(home, REFERENCE | {"access_token": token})
    found = LoginStore(PrivateFiles(home)).load()
    assert found is not None
    assert found.access_token == ""


@pytest.mark.parametrize("expiry", [None, True, "soon", -5, 0, []])
def test_an_expiry_that_is_no_time_is_unknown(home: Path, expiry: Any) -> None:
    keep(home, REFERENCE | {"expiry_date": expiry})
    found = LoginStore(PrivateFiles(home)).load()
    assert found is not None
    assert found.expires_at is None


def test_accounts_follow_one_another(home: Path) -> None:
    store = LoginStore(PrivateFiles(home))
    store.remember("a@x")
    store.remember("b@x")
    assert accounts(home) == {"active": "b@x", "old": ["a@x"]}
    store.remember("a@x")
    assert accounts(home) == {"active": "a@x", "old": ["b@x"]}
    assert store.account() == "a@x"
    keep(home, REFERENCE)
    assert store.forget()
    assert accounts(home) == {"active": None, "old": ["b@x", "a@x"]}
    assert store.account() is None
    assert not (home / "oauth_creds.json").exists()


@pytest.mark.parametrize("content", ["", "nul", "[]", '{"active": 5, "old": "x"}'])
def test_a_damaged_list_of_accounts_counts_as_empty(home: Path, content: str) -> None:
    (home / "google_accounts.json").write_text(content, encoding="utf-8")
    store = LoginStore(PrivateFiles(home))
    assert store.account() is None
    store.remember("a@x")
    assert accounts(home) == {"active": "a@x", "old": []}


def test_keys_of_other_programs_in_the_list_of_accounts_are_kept(home: Path) -> None:
    (home / "google_accounts.json").write_text(json.dumps({"active": "a@x", "z": 1}), "utf-8")
    LoginStore(PrivateFiles(home)).remember("b@x")
    assert accounts(home) == {"active": "b@x", "old": ["a@x"], "z": 1}


def test_no_token_shows_in_a_repr_or_a_traceback() -> None:
    credentials = credentials_of(REFERENCE | {"other": "very-secret"})
    shown = repr(credentials) + str(credentials)
    for secret in (*credentials.secrets, "very-secret"):
        assert secret not in shown
    assert msgspec.structs.replace(credentials) == credentials
    assert OAuthCredentials(access_token="a").secrets == ("a", "", "")
