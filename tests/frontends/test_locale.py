"""A locale that is not UTF-8: file names, commands and output are UTF-8 all the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ALHENA, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text

LATIN = "en_US.ISO-8859-1"
COMMAND = f"{sys.executable} -c 'print(\"é\")'; locale charmap; ls größe"


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a Latin-1 locale."""
    if shutil.which("localedef") is None:
        pytest.skip("no localedef here")
    folder = tmp_path_factory.mktemp("locales")
    made = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(folder / LATIN)]
    subprocess.run(made, check=False, capture_output=True)  # it warns
    if not (folder / LATIN).is_dir():
        pytest.skip("no Latin-1 locale can be made here")
    return str(folder)


@pytest.mark.requirement("WORLD-02")
@pytest.mark.parametrize(
    "given",
    [
        {"LC_ALL": LATIN},
        {"LANG": LATIN},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LC_CTYPE": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LANG": "C"},
    ],
)
def test_names_commands_and_output_are_utf8_in_any_locale(
    server: ScriptedServer, project: Path, locales: str, given: dict[str, str]
):
    (project / "größe").mkdir()
    (project / "größe" / "ü.txt").write_text("inhalt ß", encoding="utf-8")
    calls = [
        call("run_shell_command", {"command": COMMAND}),
        call("read_file", {"absolute_path": "größe/ü.txt"}),
        call("write_file", {"file_path": "neu-é.txt", "content": "é"}),
    ]
    server.reply(sse(chunk(*calls, finish="STOP")), sse(text("schön ✓")))
    unset = ("LC_", "LANG", "PYTHONUTF8", "PYTHONCOERCE")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    ran = subprocess.run(
        [ALHENA, "-p", "sieh @größe/ü.txt", "-y", "--skip-trust"],
        env=environ | keyed(server) | {"LOCPATH": locales} | given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout.decode()) == (0, "schön ✓\n")
    assert ran.stderr == b""
    first, second = (request.json["contents"][-1]["parts"] for request in server.requests)
    assert first[0]["text"] == "sieh @größe/ü.txt"
    assert "inhalt ß" in first[-1]["text"]
    shell, read, _ = (part["functionResponse"]["response"]["output"] for part in second)
    assert "Output: é\nUTF-8\nü.txt\n" in shell
    assert read == "inhalt ß"
    assert b"neu-\xc3\xa9.txt" in os.listdir(os.fsencode(project))
