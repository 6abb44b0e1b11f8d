"""Commands in a sandbox: they write in the working directory only, and reach no network."""

import logging
import tempfile
from pathlib import Path

from alhena import Agent, AgentOptions
from alhena.testing import Call, TestModel

logging.getLogger("alhena").addHandler(logging.NullHandler())  # warnings are in the result
outside = Path.home() / "alhena-example"
with tempfile.TemporaryDirectory() as folder:
    inside = Path(folder, "sub", "here")
    inside.parent.mkdir()
    command = f"echo > {inside}; echo > {outside}"
    agent = Agent(
        TestModel(Call("run_shell_command", command=command), "Done."),
        cwd=folder,
        approve="always",
        options=AgentOptions(sandbox=True, record=False),
    )
    result = agent.run_sync("Write two files.")
    print("inside:", inside.exists(), "outside:", outside.exists(), *result.warnings)
