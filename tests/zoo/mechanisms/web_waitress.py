"""Flask served by waitress with a few threads; a client sends a batch of requests."""

from random import Random

from zoo import parts, web
from zoo.parts import Part

FLAVOURS = ("threads",)
UNSUPPORTED = "threads that compute for half of each request: who computes when is another with the edit"
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 8)
    serve = f"""
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        waiter = waitress.create_server(app, host="127.0.0.1", port=0, threads=run.workers("server", {count}))
        port = waiter.effective_port
        serving = threading.Thread(target=waiter.run)
        serving.start()
        """
    stop = "waiter.task_dispatcher.shutdown()\nwaiter.trigger.pull_trigger(waiter.close)\nserving.join()"
    return Part(
        imports=("import flask", "import http.client", "import logging", "import waitress"),
        frame=web.frame(serve, stop),
        changes=(parts.unnamed_workers("server", count, count * 2),),
        libraries=("flask", "waitress"),
        alone_ms=2.0,
        serial_ms=1.5,
        at_once=count,
        job=web.JOB,
    )
