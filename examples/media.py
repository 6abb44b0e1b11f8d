"""Images, documents, audio and video: in prompts, alone as one, and from tools."""

import tempfile
import zlib
from pathlib import Path

from alhena import Agent, Audio, Document, Image, Video
from alhena.testing import Call, TestModel


def chunk(kind: bytes, data: bytes) -> bytes:
    crc = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + crc


HEAD = bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0])
BODY = chunk(b"IHDR", HEAD) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
PNG = b"\x89PNG\r\n\x1a\n" + BODY


def screenshot() -> list[str | Image]:
    """Takes a picture of the screen."""
    return ["One black pixel.", Image(PNG, "image/png")]


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "pixel.png")
    path.write_bytes(PNG)
    image = Image.from_path(path)
report = Document.from_url("https://example.com/report.pdf")
tour, call = Video.from_url("https://youtu.be/abc"), Audio.from_url("https://example.com/call.mp3")
model = TestModel("A pixel.", "They agree.", Call("screenshot"), "It is black.")
agent = Agent(model, tools=[screenshot], isolated=True, builtin_tools=())
print(agent.ask_sync(image))
print(agent.ask_sync(["Compare", report, "with", tour, "and", call]))
print(agent.ask_sync("What is on the screen?"))
for part in model.requests[1]["contents"][-1]["parts"]:
    print(part.get("text") or part["fileData"])
