"""Celery's workers are forked processes; they share a model that was made before."""

from multiprocessing import Process

from celery import Celery

from alhena import Agent
from alhena.testing import TestModel

FOLDERS = {"data_folder_in": ".", "data_folder_out": "."}
app = Celery("prefork", broker="filesystem://", backend="file://.")
app.conf.broker_transport_options = FOLDERS | {"polling_interval": 0.1}
model = TestModel("Hello.")  # or Gemini(…)


@app.task
def ask(prompt: str) -> str:
    return Agent(model, isolated=True, builtin_tools=()).ask_sync(prompt)


if __name__ == "__main__":  # in place of `celery -A prefork worker`
    options = ["worker", "--concurrency=3", "--loglevel=ERROR"]
    worker = Process(target=app.worker_main, args=[options])
    answers = [ask.delay("Hello?") for _ in range(3)]  # first: a folder is no safe broker
    worker.start()
    print([answer.get() for answer in answers])
    worker.kill()
