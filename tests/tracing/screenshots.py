"""`python -m tests.tracing.screenshots` takes the pictures of docs/trace.md: of a session that the
real command records with a scripted model, in Chromium."""

import base64
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.batch.answering import AnsweringServer
from tests.support.command import alhena, keyed
from tests.support.server import call
from tests.tracing.browser import Browser
from tests.tracing.kit import MODEL

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
PROMPT = "Why does the total ignore the last item? Fix it."
BUGGY = "def total(items):\n    return sum(items[:-1])\n"
TASK = {"agent_name": "generalist", "objective": "Find the callers of total()."}
FIX = {"file_path": "shop.py", "old_string": "items[:-1]", "new_string": "items"}
TURNS: list[tuple[float, list[dict[str, Any]]]] = [
    (0.7, [call("read_file", {"absolute_path": "shop.py"}, id="a")]),
    (0.4, [call("delegate_to_agent", TASK, id="b")]),
    (0.5, [call("search_file_content", {"pattern": "total"}, id="c")]),
    (0.4, [call("read_file", {"absolute_path": "cart.py"}, id="d")]),
    (0.3, [call("complete_task", {"result": "Only cart.py calls it."}, id="e")]),
    (0.8, [call("replace", FIX, id="f"), call("run_shell_command", {"command": "pytest"}, id="g")]),
    (0.6, [{"text": "The slice dropped the last item; it is gone. Please run the tests."}]),
]


def main() -> None:
    turns = iter(TURNS)

    def answer(_contents: Any) -> Any:
        seconds, parts = next(turns)
        time.sleep(seconds)
        return parts

    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "shop")
        home.mkdir()
        project.mkdir()
        os.chdir(project)
        os.environ["HOME"] = str(home)
        (project / "shop.py").write_text(BUGGY, encoding="utf-8")
        (project / "cart.py").write_text("from shop import total\n", encoding="utf-8")
        with AnsweringServer(answer) as server:
            options = ("--approval-mode", "auto_edit", "--skip-trust", "-m", MODEL)
            ran = alhena("-p", PROMPT, *options, **keyed(server))
        assert ran.code == 0, ran.err
        page = project / "trace.html"
        assert alhena("trace", "--html", str(page)).code == 0
        with Browser(Path(folder, "profile")) as browser:
            size = {"width": 1000, "height": 640, "deviceScaleFactor": 1, "mobile": False}
            browser.send("Emulation.setDeviceMetricsOverride", **size)
            browser.open(page)
            _take(browser, "trace", 0, 100, 1000)
            dark = [{"name": "prefers-color-scheme", "value": "dark"}]
            browser.send("Emulation.setEmulatedMedia", features=dark)
            browser.run("open(steps.findIndex((step) => step.diff), false)")
            _take(browser, "trace-call", 282, 0, 690)


def _take(browser: Browser, name: str, x: int, y: int, width: int) -> None:
    browser.drawn()
    clip = {"x": x, "y": y, "width": width, "height": 540, "scale": 0.75}
    taken = browser.send("Page.captureScreenshot", format="png", clip=clip)
    IMAGES.mkdir(exist_ok=True)
    data = base64.b64decode(taken["data"])
    (IMAGES / f"{name}.png").write_bytes(data)
    print(name, len(data))


if __name__ == "__main__":
    main()
