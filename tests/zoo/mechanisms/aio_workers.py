"""Tasks that take pieces of jobs from an asyncio.Queue; the job awaits its piece."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(1, 3)
    piece = parts.work(rng, flavour, 3, 12)
    return Part(
        setup=lines(f"""
            parcels = asyncio.Queue()

            async def pack():
                while (packed := await parcels.get()) is not None:
                    with trace.span("pack"):
                        {piece.line}
                    packed.set_result(True)

            packers = [asyncio.create_task(pack()) for _ in range(run.workers("parcels", {count}))]
            """),
        step=lines(f"""
            before = run.clock()
            packed = asyncio.get_running_loop().create_future()
            parcels.put_nowait(packed)
            await packed
            run.lost("parcels", before, own={piece.seconds})
            """),
        close="for each in packers:\n    parcels.put_nowait(None)\nawait asyncio.gather(*packers)",
        changes=(parts.workers("parcels", count, count * 2),),
        culprits=(parts.planted("parcels", "*pack*"),),
        alone_ms=piece.ms,
        serial_ms=piece.ms / count,
    )
