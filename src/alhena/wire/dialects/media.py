"""Media that a request of another dialect names by a URL."""

import re

from alhena.wire.content import Blob, FileData, FunctionResponsePart
from alhena.wire.dialects.fields import DialectError, Fields
from alhena.wire.json_values import excerpt

_DATA_URL = re.compile(r"data:([^;,\s]+)(?:;[^;,]+)*;base64,(.*)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^?#]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_ENDINGS = {
    "image": "png webp gif heic heif bmp avif jpeg jpg=jpeg tiff tif=tiff",
    "application": "pdf json",
    "text": "txt=plain md=markdown csv html xml",
    "audio": "wav mp3 aiff aac ogg flac",
    "video": "mp4 mpeg webm wmv mov avi",
}
_TYPES = {
    ending: f"{kind}/{name or ending}"
    for kind, endings in _ENDINGS.items()
    for ending, _, name in (each.partition("=") for each in endings.split())
}
"""Ending of a file's name -> its type."""


def type_of_name(name: str) -> str | None:
    """The media type by the ending of a file's name or of a URL's path."""
    return _TYPES.get(name.rpartition("/")[2].rpartition(".")[2].lower())


def media_by_url(
    holder: Fields, key: str, *, default: str | None = None, name: str = ""
) -> FunctionResponsePart:
    """The media at a URL, or in a data URL. `name` is the file's, with which plain base64 will do;
    `default` is the type of a URL that does not show it. Raises DialectError without a type,
    because the service needs it."""
    url = holder.required_text(key)
    if url.startswith("data:"):
        found = _DATA_URL.fullmatch(url)
        if found is None:
            raise holder.fail(key, "must be of the form data:TYPE;base64,DATA.")
        return inline_media(found[1], found[2])
    known = type_of_name(name)
    if known is not None and _BASE64.fullmatch(url):
        return inline_media(known, url)
    return FunctionResponsePart(file_data=file_at(url, holder.place(key), known or default))


def file_at(url: str, place: str, default: str | None) -> FileData:
    """The file at a URL, with its type. Raises DialectError for one without."""
    path = _URL.match(url)
    if path is None:
        raise DialectError(f'"{excerpt(url, 40)}" is no URL.', place)
    kind = type_of_name(path[0]) or default
    if kind is None:
        raise DialectError(
            f'the type of the file at "{excerpt(url, 60)}" is not known; '
            "send a URL that ends in .png, .jpg or the like, or the data.",
            place,
        )
    return FileData(file_uri=url, mime_type=kind)


def inline_media(mime: str, data: str) -> FunctionResponsePart:
    """Media in the request itself."""
    return FunctionResponsePart(inline_data=Blob(mime_type=mime, data=data))
