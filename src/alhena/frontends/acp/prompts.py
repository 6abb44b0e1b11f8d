"""The content blocks of a prompt as text and parts."""

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from alhena.frontends.acp.connection import INVALID_PARAMS, RpcError
from alhena.values import Value
from alhena.wire.content import Blob, Part

NO_TEXT = "See the attached content."


class Said(Value, frozen=True):
    """A prompt: its text, what is sent with it, and the files that it links to."""

    text: str
    attached: tuple[Part, ...]
    linked: tuple[str, ...]


def said(blocks: list[dict[str, Any]], cwd: Path) -> Said:
    """Reads the blocks. Raises RpcError for one that cannot be used."""
    text: list[str] = []
    attached: list[Part] = []
    linked: list[str] = []
    for block in blocks:
        match block["type"]:
            case "text":
                text.append(block["text"])
            case "image" | "audio":
                attached.append(_media(block["mimeType"], block["data"]))
            case "resource_link":
                path = _within(block["uri"], cwd)
                text.append(f"@{path or block['uri']}")
                if path is not None:
                    linked.append(path)
            case _:
                attached += _embedded(block["resource"])
    whole = "".join(text)
    return Said(whole if whole.strip() else NO_TEXT, tuple(attached), tuple(linked))


def _embedded(resource: dict[str, Any]) -> list[Part]:
    head = f"\nContent from @{resource['uri']}:\n"
    if "blob" in resource:
        kind = resource.get("mimeType") or "application/octet-stream"
        return [Part(text=head), _media(kind, resource["blob"])]
    return [Part(text=head + resource["text"])]


def _media(mime_type: str, data: str) -> Part:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {mime_type} is no base64") from error
    return Part(inline_data=Blob(mime_type=mime_type, data=data))


def _within(uri: str, cwd: Path) -> str | None:
    """The path of a link to a file of the workspace, None for any other."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if not path.resolve().is_relative_to(cwd.resolve()):
        return None
    return str(path)
