"""Celery's workers are forked processes; they share a model that was made before."""

from multiprocessing import Process

from celery import Celery
from scripted import scripted

from pydantic_ai import Agent

FOLDERS = {"data_folder_in": ".", "data_folder_out": "."}
app = Celery("prefork", broker="filesystem://", backend="file://.")
app.conf.broker_transport_options = FOLDERS | {"polling_interval": 0.1}
agent = Agent(scripted("Hello."))


@app.task
def ask(prompt: str) -> str:
    return agent.run_sync(prompt).output


if __name__ == "__main__":  # in place of `celery -A prefork worker`
    options = ["worker", "--concurrency=3", "--loglevel=ERROR"]
    worker = Process(target=app.worker_main, args=[options])
    worker.start()
    answers = [ask.delay("Hello?") for _ in range(3)]
    print([answer.get() for answer in answers])
    worker.kill()
