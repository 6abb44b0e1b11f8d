"""What kind of media a file is, by its first bytes and not by its name."""

_PREFIXES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"fLaC", "audio/flac"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"\x00\x00\x01\xb3", "video/mpeg"),
    (b"FLV\x01", "video/x-flv"),
)
_CONTAINERS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RIFF", b"AVI "): "video/avi",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
_BRANDS = {
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
}
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")


def sniff_mime(sample: bytes, name: str) -> str | None:
    """The media type of a file that begins with `sample`; None for text and anything else.

    `name` only tells audio from video where the container is the same. SVG is text.
    """
    for prefix, mime in _PREFIXES:
        if sample.startswith(prefix):
            return mime
    container = _CONTAINERS.get((sample[:4], sample[8:12]))
    if container:
        return container
    if sample[4:8] == b"ftyp":
        return _iso_media(sample[8:12], name)
    if sample.startswith(b"OggS"):
        return "video/ogg" if name.lower().endswith(".ogv") else "audio/ogg"
    if sample.startswith(b"\x1aE\xdf\xa3"):
        return "video/webm" if b"webm" in sample[:64] else None
    if sample.startswith(_ASF):
        return "video/wmv" if name.lower().endswith((".wmv", ".asf")) else None
    return _mpeg_audio(sample)


def _iso_media(brand: bytes, name: str) -> str:
    if brand.startswith(b"3g"):
        return "video/3gpp"
    plain = "audio/mp4" if name.lower().endswith((".m4a", ".m4b")) else "video/mp4"
    return _BRANDS.get(brand, plain)


def _mpeg_audio(sample: bytes) -> str | None:
    if sample.startswith(b"ID3") and len(sample) > 10 and sample[3] < 0x10 and sample[4] < 0x10:
        return "audio/mp3"
    if len(sample) < 4 or sample[0] != 0xFF:
        return None
    if sample[1] in (0xF1, 0xF9) and sample[2] >> 2 & 0xF < 13:
        return "audio/aac"
    layer_three = sample[1] in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)
    plausible = sample[2] >> 4 not in (0x0, 0xF) and sample[2] >> 2 & 3 != 3
    return "audio/mp3" if layer_three and plausible else None
