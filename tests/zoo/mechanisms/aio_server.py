"""A server in asyncio whose application is called as ASGI's are; clients send a batch, or keep a few calls open."""

from random import Random

from zoo import arrivals
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([4, 8, 16])

    def frame(head: str, body: str) -> str:
        return arrivals.defined(head, body, flavour) + lines(f"""
            async def application(scope, receive, send):
                number = int(await receive())
                await order(number, run.sizes[number])
                await send({{"type": "http.response.body", "body": b"done"}})

            async def serve(reader, writer):
                async def send(message):
                    writer.write(message["body"])
                    await writer.drain()

                await application({{"type": "http"}}, reader.readline, send)
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            open_calls = asyncio.Semaphore({count})

            async def call(number):
                async with open_calls:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"%d\\n" % number)
                    await reader.read()
                    writer.close()

            await asyncio.gather(*(call(number) for number in range(len(run.sizes))))
            server.close()
            """)

    return Part(frame=frame, alone_ms=1.0, at_once=count)
