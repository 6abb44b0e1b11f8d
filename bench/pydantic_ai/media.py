"""Images, documents, audio and video: in prompts, alone as one, and from tools."""

import tempfile
import zlib
from pathlib import Path

from scripted import call, scripted

from pydantic_ai import Agent, AudioUrl, BinaryContent, DocumentUrl, VideoUrl


def chunk(kind: bytes, data: bytes) -> bytes:
    crc = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + crc


HEAD = bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0])
BODY = chunk(b"IHDR", HEAD) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
PNG = b"\x89PNG\r\n\x1a\n" + BODY


def screenshot() -> list[str | BinaryContent]:
    """Takes a picture of the screen."""
    return ["One black pixel.", BinaryContent(PNG, media_type="image/png")]


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "pixel.png")
    path.write_bytes(PNG)
    image = BinaryContent.from_path(path)
report = DocumentUrl("https://example.com/report.pdf")
tour, talk = VideoUrl("https://youtu.be/abc"), AudioUrl("https://example.com/call.mp3")
model = scripted("A pixel.", "They agree.", call("screenshot"), "It is black.")
agent = Agent(model, tools=[screenshot])
print(agent.run_sync([image]).output)
print(agent.run_sync(["Compare", report, "with", tour, "and", talk]).output)
print(agent.run_sync("What is on the screen?").output)
for part in model.requests[1][-1].parts[0].content:
    print(part)
