"""SQLAlchemy: the ORM inserted rows one statement after the other where the database makes their keys."""

from __future__ import annotations

import sqlite3
import time

from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base
from sqlalchemy.pool import QueuePool
from storm_of_jobs import in_threads

FIX = {
    "project": "SQLAlchemy",
    "before": ["SQLAlchemy==1.4.54"],
    "after": ["SQLAlchemy==2.0.9"],
    "link": "https://docs.sqlalchemy.org/en/20/changelog/whatsnew_20.html",
    "did": "rows are inserted by one statement with many VALUES and RETURNING",
    "edit": ["--coalesce", "INSERT INTO*=16"],
    "fits": "exact",
}
JOBS = 16
ROWS = 16
STATEMENT_S = 0.01
Base = declarative_base()


class Item(Base):  # type: ignore[misc,valid-type]
    """A row whose key the database makes."""

    __tablename__ = "item"
    id = Column(Integer, primary_key=True)
    name = Column(String)


class SlowCursor(sqlite3.Cursor):
    """A statement goes to a database over a network."""

    def execute(self, *words: object) -> SlowCursor:
        time.sleep(STATEMENT_S)
        return super().execute(*words)


class SlowConnection(sqlite3.Connection):
    """Its cursors are slow."""

    def cursor(self) -> SlowCursor:
        return super().cursor(SlowCursor)


def connect() -> SlowConnection:
    connection = sqlite3.connect(":memory:", factory=SlowConnection, check_same_thread=False)
    connection.executescript("create table item (id integer primary key, name varchar)")
    return connection


def main() -> None:
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=JOBS, max_overflow=0)

    def job(number: int) -> None:
        with Session(engine) as session:
            session.add_all([Item(name=f"{number}-{k}") for k in range(ROWS)])
            session.commit()

    for _ in range(2):
        job(0)
    in_threads(job, JOBS)


main()
