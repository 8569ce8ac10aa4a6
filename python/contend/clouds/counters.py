"""Counters of a cloud's database and broker: SQL statements and messages, without tracing anything.

The database is asked for its global status (MariaDB, MySQL), and for the statements of each user where MariaDB's
`userstat` is on, or of each schema where the performance schema is. The broker is RabbitMQ with its plugin
rabbitmq_prometheus; an RPC call is two messages (request and reply), a cast is one.

Services poll on their own, so what was counted while something went on is more than it took: see `Background`.
"""

from __future__ import annotations

import base64
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import SplitResult, parse_qs

from contend.clouds.config_files import check_trusted
from contend.clouds.http import proxy_for
from contend.clouds.secrets import BROKER, DATABASE, find_url, login_of
from contend.clouds.wire import Lost, NotSent, Untrusted, Wire
from contend.errors import BadInput, CannotHonour, ContendError, HostFailed
from contend.text.shape import Shape

if TYPE_CHECKING:
    import ssl

OF = " of "
"""Between `statements` and the name of the user or schema that they are of: `owner_of` reads it."""
NS = 1_000_000_000
_TIMEOUT_S = 10
# What a statement counts as, by the database's name of it: Com_select and so on, statement/sql/select.
_KINDS: Mapping[str, str] = {
    "select": "select",
    "insert": "insert",
    "insert_select": "insert",
    "replace": "insert",
    "replace_select": "insert",
    "update": "update",
    "update_multi": "update",
    "delete": "delete",
    "delete_multi": "delete",
    "commit": "commits",
    "rollback": "rollbacks",
}
_STATEMENTS = ("select", "insert", "update", "delete")
_MESSAGES: Mapping[str, str] = {
    "rabbitmq_global_messages_received_total": "messages",
    "rabbitmq_global_messages_delivered_total": "deliveries",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Counts since the servers started, by name: statements (select, insert, update and delete together), each of
    these, commits, rollbacks, messages (that were published), deliveries, and `statements of NAME`, a user or schema.

    `at_ns` is CLOCK_MONOTONIC, after they were read.
    """

    at_ns: int
    counts: Mapping[str, int]

    def since(self, before: Reading) -> dict[str, int]:
        """Subtract an earlier reading: what was counted meanwhile."""
        return {name: count - before.counts.get(name, 0) for name, count in self.counts.items()}


class Count(NamedTuple):
    """How many, between `low` and `high` for the doubt in what goes on anyway."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Background(Shape):
    """Counts of a cloud at rest: over `span_ns`, and the variance between its seconds.

    `from_ns` is when that time began, CLOCK_MONOTONIC.
    """

    span_ns: int
    counts: Mapping[str, int]
    variance: Mapping[str, float]
    from_ns: int = 0

    def expected(self, name: str, ns: int) -> tuple[float, float]:
        """Expect this many in `ns` nanoseconds, and the standard error of that, taking seconds to be independent."""
        seconds, quiet = ns / NS, self.span_ns / NS
        mean = self.counts.get(name, 0) / quiet * seconds if quiet else 0.0
        variance = self.variance.get(name, 0.0)
        return mean, math.sqrt(variance * (seconds + (seconds * seconds / quiet if quiet else 0.0)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Background:
        return cls(data["span_ns"], data["counts"], data["variance"], data["from_ns"])


NOTHING = Background(0, {}, {})


def each(
    before: Reading,
    after: Reading,
    items: int,
    background: Background = NOTHING,
    others: Mapping[str, float] | None = None,
) -> dict[str, Count]:
    """How many of each counter one of `items` things took, less what goes on anyway and what `others` took meanwhile.

    The bounds are two standard errors of the background away.

    >>> quiet = Background(10 * NS, {"select": 20}, {"select": 0.0})
    >>> each(Reading(0, {"select": 5}), Reading(5 * NS, {"select": 115}), 10, quiet)
    {'select': Count(value=10.0, low=10.0, high=10.0)}
    """
    counts = {}
    for name, count in after.since(before).items():
        usual, error = background.expected(name, after.at_ns - before.at_ns)
        own = count - usual - (others or {}).get(name, 0.0)
        counts[name] = Count(own / items, (own - 2 * error) / items, (own + 2 * error) / items)
    return counts


class _Source(Protocol):
    def read(self) -> dict[str, int]: ...
    def close(self) -> None: ...


class Counters:
    """The counters of one cloud. `absent` says of `statements` and `messages` why they are not counted."""

    def __init__(self, sources: Mapping[str, _Source], absent: Mapping[str, str]) -> None:
        self._sources, self.absent = dict(sources), dict(absent)

    @classmethod
    def open(cls, database: str = "", broker: str = "", environ: Mapping[str, str] = os.environ) -> Counters:
        """Open the counters that the options or the environment name; see `find_url`.

        Raises BadInput, CannotHonour or HostFailed where one is named and cannot be had.
        """
        sources: dict[str, _Source] = {}
        absent = {}
        makers: tuple[tuple[str, str, str, Callable[[SplitResult], _Source]], ...] = (
            ("statements", database, DATABASE, Database),
            ("messages", broker, BROKER, Broker),
        )
        try:
            for what, given, variable, make in makers:
                url = find_url(given, variable, environ)
                if url is None:
                    absent[what] = f"nobody says where: {variable}"
                else:
                    sources[what] = make(url)
        except ContendError:
            cls(sources, {}).close()
            raise
        return cls(sources, absent)

    def __bool__(self) -> bool:
        return bool(self._sources)

    def read(self) -> Reading:
        """Read all counters now. Raises HostFailed."""
        counts: dict[str, int] = {}
        for source in self._sources.values():
            counts |= source.read()
        return Reading(time.monotonic_ns(), counts)

    def quiet(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> Background:
        """Measure the background: what is counted in that many seconds while the caller sends nothing."""
        readings = [self.read()]
        for _ in range(max(1, round(seconds))):
            sleep(min(1.0, seconds))
            readings.append(self.read())
        parts = [after.since(before) for before, after in pairwise(readings)]
        whole = readings[-1].since(readings[0])
        variance = {name: _variance([part.get(name, 0) for part in parts]) for name in whole}
        first, last = readings[0].at_ns, readings[-1].at_ns
        return Background(last - first, whole, variance, first)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()


def _variance(values: Sequence[int]) -> float:
    """Sample variance; without `statistics`, which takes a client longer to import than a storm costs it."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


class Database:
    """MariaDB or MySQL: `mysql://USER:PASSWORD@HOST:PORT/`, or `mysql://USER@/?unix_socket=PATH`; `ssl_ca=PATH` for TLS.

    Any user may see the status; `PROCESS` is needed for the counts by user, SELECT on `performance_schema` for those by
    schema.
    """

    def __init__(self, url: SplitResult) -> None:
        if not url.scheme.startswith(("mysql", "mariadb")):
            raise BadInput(
                f"no statements of a {url.scheme} database are counted", hint="MariaDB and MySQL: mysql://…"
            )
        try:
            import pymysql
        except ImportError as error:
            raise CannotHonour(
                "counting SQL statements needs PyMySQL, which is not installed",
                hint="pip install 'contend[openstack]'",
            ) from error

        options = {name: values[0] for name, values in parse_qs(url.query).items()}
        user, password = login_of(url)
        self._error: type[Exception] = pymysql.err.MySQLError
        self._own = 0  # statements of ours so far that count
        try:
            self._connection: Any = pymysql.connect(
                host=url.hostname or "localhost",
                port=url.port or 3306,
                user=user,
                password=password,
                unix_socket=options.get("unix_socket"),
                ssl_ca=options.get("ssl_ca"),
                connect_timeout=_TIMEOUT_S,
                read_timeout=_TIMEOUT_S,
                autocommit=None,
            )
            self._apart = self._breakdown_query()
        except self._error as error:
            raise HostFailed(
                f"the database does not let us in: {error}", hint=f"is what {DATABASE} says right?"
            ) from error

    def read(self) -> dict[str, int]:
        names = ",".join(f"'Com_{name}'" for name in _KINDS)
        try:
            rows = self._ask(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")
            counts = dict.fromkeys((*_STATEMENTS, "commits", "rollbacks"), 0)
            for name, value in rows:
                counts[_KINDS[str(name).lower().removeprefix("com_")]] += int(value)
            counts["select"] -= self._own
            counts["statements"] = sum(counts[name] for name in _STATEMENTS)
            for name, value in self._ask(self._apart) if self._apart else ():
                counts[f"statements{OF}{name}"] = int(value)
        except self._error as error:
            raise HostFailed(f"the database does not tell its counts: {error}") from error
        return counts

    def _breakdown_query(self) -> str:
        """The query for counts by schema or user; "" where neither is kept, or not for us to see."""
        settings = dict(
            self._ask("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('performance_schema', 'userstat')")
        )
        for variable, query in _APART.items():
            if str(settings.get(variable, "")).upper() in ("ON", "1"):
                try:
                    self._ask(query)
                except self._error:  # no right to
                    continue
                return query
        return ""

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            self._own += query.startswith("SELECT")
            cursor.execute(query)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


# A digest is that of one text of a statement in one schema. Of MariaDB's, writes are `update_commands`.
_APART: Mapping[str, str] = {
    "performance_schema": "SELECT schema_name, SUM(count_star) FROM"
    " performance_schema.events_statements_summary_by_digest WHERE schema_name IS NOT NULL"
    " AND digest_text REGEXP '^(SELECT|INSERT|REPLACE|UPDATE|DELETE)' GROUP BY schema_name",
    "userstat": "SELECT user, select_commands + update_commands FROM information_schema.user_statistics"
    " WHERE user <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)",
}


class Broker:
    """RabbitMQ's global counters, by its plugin rabbitmq_prometheus: `http://HOST:15692/`."""

    def __init__(self, url: SplitResult) -> None:
        if url.scheme not in ("http", "https"):
            raise BadInput(
                f"no messages are counted over {url.scheme}",
                hint="the broker's plugin rabbitmq_prometheus: http://HOST:15692/",
            )
        user, password = login_of(url)
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}"} if user else {}
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        port = f":{url.port}" if url.port else ""
        self._url = f"{url.scheme}://{host}{port}{url.path.rstrip('/') or '/metrics'}"
        self._wire = Wire(
            keep=1,
            connect_s=_TIMEOUT_S,
            read_s=_TIMEOUT_S,
            context=_tls,
            proxy=proxy_for,
        )
        self.read()

    def read(self) -> dict[str, int]:
        try:
            answer = self._wire.exchange("GET", self._url, self._headers, None)
        except (NotSent, Untrusted, Lost) as error:
            raise HostFailed(
                f"the broker does not tell its counts: {error}", hint=f"is what {BROKER} says right?"
            ) from error
        counts = messages(answer.body.decode(errors="replace")) if answer.status == 200 else {}
        if not counts:
            raise HostFailed(
                f"the broker does not tell its counts: {answer.status}",
                hint="is it RabbitMQ 3.9 or newer, with its plugin rabbitmq_prometheus?",
            )
        return counts

    def close(self) -> None:
        self._wire.close()


def _tls() -> ssl.SSLContext:
    import ssl

    check_trusted()
    return ssl.create_default_context()


_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? ([0-9.eE+]+)$", re.MULTILINE)


def messages(text: str) -> dict[str, int]:
    """Parse RabbitMQ's metrics: all protocols and kinds of queues together.

    >>> messages('rabbitmq_global_messages_received_total{protocol="amqp091"} 12\\nup 1')
    {'messages': 12}
    """
    counts: dict[str, int] = {}
    for name, value in _SAMPLE.findall(text):
        if name in _MESSAGES:
            counts[_MESSAGES[name]] = counts.get(_MESSAGES[name], 0) + int(float(value))
    return counts


def owner_of(name: str) -> str | None:
    """The user or schema whose statements a counter counts; None for another kind of counter.

    >>> owner_of("statements of nova"), owner_of("commits")
    ('nova', None)
    """
    _, of, owner = name.partition(OF)
    return owner if of else None
