"""Flask served by werkzeug, a thread a request; a client sends a batch of requests."""

from random import Random

from zoo import web
from zoo.parts import Part

FLAVOURS = ("threads",)
UNSUPPORTED = (
    "a thread for each request, which computes for half of it: who computes when is another with the edit"
)
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    serve = """
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
        port = server.server_port
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        """
    return Part(
        imports=("import flask", "import http.client", "import logging", "import werkzeug.serving"),
        frame=web.frame(serve, "server.shutdown()\nserving.join()\nserver.server_close()"),
        libraries=("flask", "werkzeug"),
        alone_ms=2.0,
        serial_ms=2.5,
        job=web.JOB,
    )
