"""Flask served by a worker process of gunicorn with a few threads; a client sends a batch of requests."""

from random import Random

from zoo import parts, web
from zoo.parts import Part, lines

FLAVOURS = ("threads",)
FRONT = True
# Their threads would be started before the server's process is forked, and not be in it.
NOT_WITH = (
    "group_commit",
    "lifo_queue",
    "own_queues",
    "pipe",
    "polling",
    "priority_queue",
    "process_pool",
    "rabbit_workers",
)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 8)
    serve = f"""
        @app.get("/counted")
        def counted():
            return [run.spans, run.losses]

        listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        port = listening.getsockname()[1]
        options = {{"bind": f"fd://{{listening.fileno()}}", "worker_class": "gthread", "loglevel": "critical"}}
        options["threads"] = run.workers("threads", {count})
        serving = multiprocessing.Process(target=Server(app, options).run)
        serving.start()
        """
    counted = """
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", "/counted")
        run.merge(json.load(client.getresponse()))
        """
    stop = "os.kill(serving.pid, signal.SIGQUIT)\nserving.join()\nlistening.close()"
    return Part(
        imports=(
            "import flask",
            "import http.client",
            "import json",
            "import os",
            "import signal",
            "import socket",
            "from gunicorn.app.base import BaseApplication",
        ),
        top=lines("""
            class Server(BaseApplication):
                def __init__(self, app, options):
                    self.app, self.options = app, options
                    super().__init__()

                def load_config(self):
                    for name, value in self.options.items():
                        self.cfg.set(name, value)

                def load(self):
                    return self.app
            """),
        frame=web.frame(serve, stop, counted=counted),
        changes=(parts.unnamed_workers("threads", count, count * 2),),
        libraries=("flask", "gunicorn"),
        alone_ms=2.0,
        serial_ms=1.5,
        at_once=count,
        job=web.JOB,
    )
