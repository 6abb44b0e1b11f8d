"""Looks at a Ray cluster before connecting to it: Ray itself waits long, and ends its process with
a trace of C++ for most of what may be missing."""

import json
import socket
import sys
import threading
from importlib import import_module
from typing import Any

from alhena.errors import ConfigError

_CONNECT_S, _ANSWER_S = 2.0, 1.5
_REMEDY = (
    "Set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, to the token that `ray start` had on the nodes "
    "(with RAY_AUTH_MODE=token)."
)


def require_cluster(ray: Any, address: str) -> None:
    """Raises ConfigError, within some seconds, for a cluster that cannot be used: there is no
    token, no cluster, another token or another version."""
    _require_token(ray)
    place = _find_address(address)
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"no Ray cluster answers at {place}: {why}.",
            remedy="Start it: ray start --head, or name its address: --address HOST:6379.",
            page="batch",
        ) from error
    _require_version(ray, place, _read_metadata(ray, place))


def _require_token(ray: Any) -> None:
    """Raises ConfigError where Ray finds no token."""
    loader = import_module("ray._raylet").AuthenticationTokenLoader.instance()
    try:
        found, why = loader.has_token(), ""
    except ray.exceptions.AuthenticationError as error:
        found, why = False, f" ({str(error).partition('. ')[0]})"
    if not found:
        raise ConfigError(
            f"there is no token for the Ray cluster{why}.",
            remedy=_REMEDY,
            page="batch",
        )


def _find_address(address: str) -> str:
    """HOST:PORT. Raises ConfigError."""
    if "://" in address:
        raise ConfigError(
            f"--address cannot be {address}: the command has to run on a node of the cluster.",
            remedy="Run it there with --address auto, or as a job: ray job submit.",
            page="batch",
        )
    if address != "auto":
        return address
    services = import_module("ray._private.services")
    try:
        found = services.canonicalize_bootstrap_address(address)
    except ConnectionError:
        found = None
    if not found:
        raise ConfigError(
            "no Ray cluster runs on this machine.",
            remedy="Start one: ray start --head, or name its address: --address HOST:6379.",
            page="batch",
        )
    return found


def _read_metadata(ray: Any, place: str) -> dict[str, str]:
    """Versions that the cluster has. Raises ConfigError."""
    found: list[bytes | Exception | None] = []

    def ask() -> None:
        try:
            client = import_module("ray._raylet").GcsClient(address=place)
            found.append(client.internal_kv_get(b"CLUSTER_METADATA", b"cluster", timeout=_ANSWER_S))
        except Exception as error:  # noqa: BLE001  it is looked at below
            found.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_ANSWER_S)
    answer = found[0] if found else None
    if isinstance(answer, ray.exceptions.AuthenticationError):
        raise ConfigError(
            f"the Ray cluster at {place} refuses the token.",
            remedy=_REMEDY,
            page="batch",
        )
    if not isinstance(answer, bytes):
        why = "" if answer is None else f" ({str(answer).partition('.')[0]})"
        raise ConfigError(
            f"what answers at {place} is no Ray cluster{why}.",
            remedy="Name the address that `ray start --head` printed, usually with port 6379.",
            page="batch",
        )
    return json.loads(answer)


def _require_version(ray: Any, place: str, metadata: dict[str, str]) -> None:
    own = {
        "ray_version": ray.__version__,
        "python_version": ".".join(map(str, sys.version_info[:3])),
    }
    theirs = {name: metadata.get(name, "?") for name in own}
    if theirs != own:
        raise ConfigError(
            f"the Ray cluster at {place} has Ray {theirs['ray_version']} with Python "
            f"{theirs['python_version']}, this machine Ray {own['ray_version']} with Python "
            f"{own['python_version']}.",
            remedy="Install the same versions on all nodes.",
            page="batch",
        )
