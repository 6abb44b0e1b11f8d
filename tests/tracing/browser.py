"""A headless Chromium, driven by its DevTools protocol over two pipes; no port, no network."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.support.patience import PATIENCE_S

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}


class Browser:
    """One page. `problems` are exceptions, refusals by the content security policy and requests
    for anything but the page itself."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--window-size=1200,800", "--remote-debugging-pipe", f"--user-data-dir={profile}"),
        ]
        start = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", start, "bash", CHROMIUM, *flags],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._session = ""
        self._rest = b""
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        try:
            self._attach()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")
        self._session = self.send("Target.attachToTarget", flatten=True, **target)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        self._session = ""
        self.send("Browser.close")
        self._process.wait(PATIENCE_S)
        os.close(self._in)
        os.close(self._out)

    def send(self, method: str, /, **params: Any) -> Any:
        """The result of a command."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                return heard["result"]
            self._events.append(heard)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 16)
            assert data, "Chromium has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def open(self, page: Path, fragment: str = "") -> None:
        """Loads a page and waits until it is drawn."""
        self._events.clear()
        self.send("Page.navigate", url=f"{page.as_uri()}{fragment}")
        while not any(each["method"] == "Page.loadEventFired" for each in self._events):
            self._events.append(self._next())
        self.drawn()

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def drawn(self) -> None:
        """Returns when the page has been drawn once more."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key: str) -> None:
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Clicks at the middle of an element."""
        where = self.run(
            f"(() => {{ const at = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; })()"
        )
        at = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **at)

    @property
    def problems(self) -> list[str]:
        self.run("1")
        found: list[str] = []
        for each in self._events:
            match each:
                case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                    found.append(str(details))
                case {"method": "Log.entryAdded", "params": {"entry": entry}}:
                    found.append(str(entry["text"]))
                case {"method": "Network.requestWillBeSent", "params": {"request": request}}:
                    if not request["url"].startswith("file:"):
                        found.append(str(request["url"]))
                case _:
                    pass
        return found
