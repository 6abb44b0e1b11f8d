"""The media that the API takes beside text."""

MEDIA_TYPES = frozenset(
    {
        *("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
        *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg"),
        *("audio/flac", "audio/mp4", "audio/m4a", "audio/opus", "audio/webm"),
        *("video/mp4", "video/mpeg", "video/mov", "video/quicktime", "video/avi", "video/x-flv"),
        *("video/mpg", "video/webm", "video/wmv", "video/3gpp"),
        "application/pdf",
    }
)


def takes_media(mime_type: str) -> bool:
    """Whether a result of a call may hold data of this type (conformance F13)."""
    kind = mime_type.partition(";")[0].strip().lower()
    return kind in MEDIA_TYPES or kind.startswith("text/")
