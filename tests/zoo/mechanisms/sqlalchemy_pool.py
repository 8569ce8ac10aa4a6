"""SQLAlchemy's QueuePool of two or three connections to SQLite, each kept while the job makes its answer."""

from dataclasses import replace
from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads",)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([2, 2, 3])
    answer = parts.work(rng, flavour, 4, 12, cpu=0)
    score = parts.work(rng, flavour, 1, 5, cpu=0)
    options = ("--size", f"connections to sqlite:///shop.db={count * 2}")
    resized = replace(parts.size("engine", count, count * 2), options=options)
    return Part(
        imports=("import sqlalchemy", "from sqlalchemy.pool import QueuePool"),
        setup=lines(f"""
            engine = sqlalchemy.create_engine(
                "sqlite:///shop.db", poolclass=QueuePool, pool_size=run.size("engine", {count}), max_overflow=0
            )
            with engine.begin() as connection:
                connection.execute(sqlalchemy.text("create table if not exists goods (price integer)"))
            """),
        step=lines(f"""
            before = run.clock()
            with engine.connect() as connection:
                run.lost("engine", before)
                connection.execute(sqlalchemy.text("select max(price) from goods")).all()
                {answer.line}
                if run.keeps("score"):
                    with trace.span("score"):
                        {score.line}
            """),
        close="engine.dispose()",
        changes=(parts.remove("score"), resized),
        culprits=(parts.planted("engine", "*shop*", "*sqlite*", "*connection*", "*score*"),),
        libraries=("sqlalchemy",),
        alone_ms=answer.ms + score.ms + 1,
        serial_ms=(answer.ms + score.ms + 1) / count,
    )
