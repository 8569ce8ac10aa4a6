"""Workers behind a real RabbitMQ, called by RPC of oslo.messaging; the job waits for the answer."""

from random import Random

from zoo import parts
from zoo.parts import BROKER, Part, lines

FLAVOURS = ("threads",)
UNSUPPORTED = (
    "calls over a broker: half of such a storm is computing in the library, and how long messages "
    "are on their way is not on record for another storm"
)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([1, 2, 3])
    bill = parts.work(rng, flavour, 4, 12, cpu=0)
    mail = parts.work(rng, flavour, 2, 5, cpu=0)
    return Part(
        imports=("import os", "import oslo_messaging", "from oslo_config import cfg"),
        top=lines(f"""
            class Billing:
                def __init__(self, run):
                    self.run = run

                def bill(self, context, number):
                    {bill.line}
                    if self.run.keeps("mail"):
                        with trace.span("mail"):
                            {mail.line}
                    return number
            """),
        setup=lines(f"""
            cfg.CONF([])
            transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=os.environ["ZOO_RABBIT"])
            target = oslo_messaging.Target(topic="billing", server="one")
            server = oslo_messaging.get_rpc_server(transport, target, [Billing(run)], executor="threading")
            server.start(override_pool_size=run.workers("billing", {count}))
            billing = oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic="billing"))
            billing.call({{}}, "bill", number=0)
            """),
        step=lines(f"""
            before = run.clock()
            billing.call({{}}, "bill", number=number)
            run.lost("bill", before, own={bill.seconds} + {mail.seconds})
            """),
        close="server.stop()\nserver.wait()\ntransport.cleanup()",
        changes=(parts.remove("mail"), parts.unnamed_workers("billing", count, count * 2)),
        culprits=(parts.planted("bill", "*mail*", "*rpc*"),),
        libraries=(BROKER, "oslo_messaging"),
        alone_ms=bill.ms + mail.ms + 3,
        serial_ms=(bill.ms + mail.ms + 1.5) / count,
    )
