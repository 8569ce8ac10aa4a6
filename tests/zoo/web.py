"""Flask behind a server, and a client that sends a batch of requests: what the web mechanisms have in common."""

from __future__ import annotations

from zoo.parts import Frame, indented, lines

JOB = "POST /order"
"""The span of a request."""


def frame(serve: str, stop: str, *, counted: str = "") -> Frame:
    """Requests are the jobs: `serve` starts a server of `app` on `port`, `stop` ends it. counted: lines after the batch."""

    def framed(head: str, body: str) -> str:
        return "\n".join(
            (
                'app = flask.Flask("shop")\napp.wsgi_app = run.requests(app.wsgi_app)\n',
                '@app.post("/order")\ndef order():\n    number = int(flask.request.data)\n    size = run.sizes[number]',
                indented(body),
                '    return "done"\n',
                lines(serve),
                lines("""

                def send(number):
                    client = http.client.HTTPConnection("127.0.0.1", port)
                    client.request("POST", "/order", body=str(number))
                    client.getresponse().read()
                    client.close()

                clients = [threading.Thread(target=send, args=(number,)) for number in range(len(run.sizes))]
                for each in clients:
                    each.start()
                for each in clients:
                    each.join()
                """),
                *([lines(counted)] if counted else []),
                lines(stop),
            )
        )

    return framed
