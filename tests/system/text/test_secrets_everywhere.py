"""Secrets of sixty shapes, in every place that a run takes text from, looked for in what every verb prints and writes."""

from __future__ import annotations

import json
import shlex
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from test_secrets_masked import texts

from contend.text.masking import has_url_password
from support.answers import data_in
from support.bystander import bystander
from support.command_line import Home, Said
from support.secret_texts import SHAPES, seen, unique

PLACES = (
    "title",
    "command",
    "prepare",
    "variable",
    "said",
    "workload",
    "neighbour",
    "trace",
    "import",
    "option",
)
Ask = Callable[..., Said]
MANY = "; "  # in one line: titles, and scripts as comments


def in_scenario(place: str) -> str:
    """As `all_of`, but for URLs with a password: a scenario with one is refused."""
    texts_ = (shape(unique(kind, place)).replace("\n", " ") for kind, shape in SHAPES.items())
    return MANY.join(text for text in texts_ if not has_url_password(text))


def all_of(place: str, between: str = MANY) -> str:
    """Every shape with secrets that are of this place alone."""
    return between.join(shape(unique(kind, place)).replace("\n", " ") for kind, shape in SHAPES.items())


class Searched:
    """All output so far, and what was found in it."""

    def __init__(self) -> None:
        self.outputs = self.tried = 0
        self.found: list[str] = []
        self.secrets = {(kind, place): unique(kind, place) for kind in SHAPES for place in PLACES}

    def look(self, where: str, data: bytes) -> None:
        self.outputs += 1
        self.tried += len(self.secrets)
        if b"Zq7" not in data and b"ZQ7" not in data and b"bWU6" not in data and b"zq7" not in data:
            return
        self.found += [
            f"{kind} of {place} in {where}"
            for (kind, place), secret in self.secrets.items()
            if seen(secret, data)
        ]

    def said(self, said: Said, words: tuple[str, ...]) -> Said:
        said.no_traceback()
        self.look(" ".join(words)[:60], (said.out + said.err).encode())
        return said

    def below(self, folder: Path) -> None:
        for path, data in texts(folder):
            if path.suffix == ".ctrace":  # as recorded, for its owner; masked where it is read
                continue
            if path.name != "scenario.yaml" and "outputs" not in path.parts and "series" not in path.parts:
                self.look(str(path), data)


@pytest.fixture
def neighbour() -> Iterator[int]:
    """A busy process with secrets in its arguments and in its name."""
    name = f"--pw={unique('short option', 'neighbour')[:9]}"
    with bystander(name.encode(), all_of("neighbour").encode()) as pid:
        yield pid


def written(home: Home) -> str:
    """A scenario whose first command fails once, quoting all that is secret."""
    failing = f"""echo >>$0; if [ $(wc -l <$0) != 2 ]; then exit 0; fi; cat {home.path}/said >&2; exit 3"""
    (home.path / "said").write_text(all_of("said", "\n"))
    document = {
        "study": "compare",
        "title": f"Is it slower? {in_scenario('title')}",
        "variants": [
            {
                "name": "first",
                "command": shlex.join(["sh", "-c", failing, str(home.path / "once"), in_scenario("command")]),
                "prepare": shlex.join(["sh", "-c", f": {shlex.quote(in_scenario('prepare'))}"]),
                "env": {"PGPASSWORD": unique("option", "variable"), "SOME_URL": in_scenario("variable")},
            },
            {"name": "second", "command": "true"},
        ],
        "measure": {"target": None, "blocks": 3, "pilot": 1, "seed": 3},
    }
    (home.path / "s.yaml").write_text(json.dumps(document))
    return "s.yaml"


def test_no_secret_is_shown_by_any_verb(tmp_path: Path, neighbour: int) -> None:
    home, searched = Home(tmp_path), Searched()

    def ask(*words: str) -> Said:
        return searched.said(home(*words), words)

    asked = written(home)
    for words in (
        ("validate", asked, "--show"),
        ("run", asked, "--dry-run"),
        ("run", asked, "--dry-run", "--json"),
    ):
        ask(*words).fine()
    ask("run", asked, "-v", "--runs", str(home.runs))
    run = str(home.the_run())
    kept = Path(run, "scenario.yaml").read_bytes()
    assert seen(unique("mysql", "command"), kept), "it keeps what --resume needs"
    ask("run", "--resume", run)
    for form in ("csv", "parquet", "latex", "junit", "openmetrics", "perfetto", "chrome", "svg"):
        ask("export", run, "--to", form).fine()
    for words in (
        ("report", run), ("report", run, "-v"), ("report", run, "--json"), ("advise", run), ("advise", run, "--json"),
        ("compare", run, run), ("compare", run, run, "--json"), ("list", "runs"), ("list", "runs", "--json"),
        ("sql", run, "select * from trials"), ("sql", run, "select * from trials", "--json"),
        ("sql", run, "select * from ledger", "--csv"), ("context", run), ("destroy", run), ("doctor",), ("doctor", "--json"),
    ):  # fmt: skip
        ask(*words)
    _recordings(home, ask)
    _traces(home, ask)
    _bad_words(ask)
    # What others measured, and a workload of the user's.
    (tmp_path / "hyperfine.json").write_text(
        json.dumps(
            {
                "results": [
                    {"command": f"{all_of('import')} {n}", "times": [1.0, 1.1, 1.2 + n], "mean": 1.1}
                    for n in range(2)
                ]
            }
        )
    )
    ask("import", "hyperfine.json", "--runs", str(home.runs))
    home.workload("mine", "name: mine\ntitle: " + json.dumps(all_of("workload")) + "\nrun: 'true'\n"
                  "metrics: {wall: {builtin: wall, unit: s, better: lower}}\ndominant: cpu\ntrial: 10ms\n")  # fmt: skip
    for words in (
        ("list", "workloads"),
        ("list", "workloads", "--json"),
        ("validate", str(home.workloads / "mine.yaml")),
    ):
        ask(*words)
    _served(home, searched)
    for folder in home.run_directories():
        searched.below(folder)
    searched.below(tmp_path / "traced")
    print(
        f"secrets masked: {searched.tried - len(searched.found)} of {searched.tried} looked for"
        f" in {searched.outputs} outputs"
    )
    print(*sorted(set(searched.found)), sep="\n")
    assert searched.found == []
    assert len(searched.secrets) >= 600


def _recordings(home: Home, ask: Ask) -> None:
    """Of the host, where a neighbour with a secret in its name is busy."""
    sampled, watched = str(home.runs / "sampled"), str(home.runs / "watched")
    ask("sample", "-o", sampled, "--", "sh", "-c", "sleep 0.6", all_of("command")).fine()
    ask("watch", "--for", "2s", "--by", "process", "-o", watched)
    ask("watch", "--for", "1s", "--by", "process", "--json")
    for recording in (sampled, watched):
        ask("report", recording)
        ask("report", recording, "--json")
        for form in ("csv", "parquet", "openmetrics", "perfetto", "chrome"):
            ask("export", recording, "--to", form)
        ask("sql", recording, "select * from process_use limit 300")


def _traces(home: Home, ask: Ask) -> None:
    (home.path / "program.py").write_text(
        "import time\nfrom contend import trace\nfor n in range(6):\n"
        f"    with trace.span({all_of('trace')!r}): time.sleep(0.002)\n"
    )
    ask("trace", "-o", "traced", "--", "python3", "program.py").fine()
    for words in (("report", "traced"), ("report", "traced", "--json"), ("hunt", "traced"), ("hunt", "traced", "--json"),
                  ("sql", "traced", "select * from jobs"), ("whatif", "traced", "--cores", "4"),
                  ("export", "traced", "--to", "perfetto"), ("export", "traced", "--to", "chrome")):  # fmt: skip
        ask(*words)


def _bad_words(ask: Ask) -> None:
    """Errors that repeat what was typed."""
    wrong = {kind: shape(unique(kind, "option")) for kind, shape in SHAPES.items()}
    ask("run", " ".join(wrong[kind] for kind in ("option", "mysql", "bearer", "json", "aws id", "web token")))
    ask(
        "ab",
        "--metric",
        f"{wrong['next word']} {wrong['curl user']} {wrong['url']}",
        "--",
        "true",
        "--vs",
        "false",
    )
    ask("stats", f"/nowhere/{wrong['query']} {wrong['basic']}")
    ask(
        "fetch",
        "--retries",
        "1",
        f"https://me:{unique('url', 'option')}@127.0.0.1:1/x?token={unique('query', 'option')}",
    )
    ask("sql", "/nowhere", f"select '{SHAPES['url'](unique('url', 'option'))}'")


def _served(home: Home, searched: Searched) -> None:
    names = [path.name for path in home.run_directories()]
    pages = ["/", "/?q=token", "/runs.json", "/api/runs"]
    for name in names:
        pages += [
            f"/run/{name}",
            f"/run/{name}/report.html",
            f"/run/{name}/findings.json",
            f"/compare?a={name}&b={name}",
        ]
    with home.start("serve", "--listen", "127.0.0.1:0", "--json") as process:
        try:
            url = data_in(process.stdout.readline())["url"].rstrip("/")
            whole = 0
            for page in pages:
                try:
                    with urllib.request.urlopen(f"{url}{page}", timeout=30) as answer:
                        data = answer.read()
                        whole += 1
                except HTTPError as error:
                    data = error.read()
                searched.look(page, data)
            assert whole >= 4
        finally:
            process.terminate()
            process.communicate(timeout=20)
