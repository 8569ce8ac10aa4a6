"""Ten kinds of secrets given to a run: none is in what it writes, prints, exports or serves, but for scenario.yaml."""

from __future__ import annotations

import json
import shlex
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote

from contend.files import open_inside
from support.answers import data_in
from support.command_line import Home, Said, rows

# None is a word, nor a part of another.
SECRETS = {
    "option": "Opt1onPw7q",
    "next argument": "N3xtArgPw8w",
    "mysql": "MySqlPw9e",
    "variable": "PgPw4ssw0rd1r",
    "bearer": "B34rerT0ken2t",
    "basic": "QWxhZGRpbjpPcGVuU2VzYW1l",
    "token in a URL": "Ur1T0ken3y",
    "signature": "S1gnatur3Of4u",
    "AWS key": "AKIAZZ5ZZ6ZZ7ZZ8ZZ9Z",
    "JSON key": "Js0nS3cret6i",
    "JSON web token": "eyJhbGciOiJub25lIn0.eyJ1c2VyIjoibm9ib2R5In0.c2lnbmF0dXJlNw",
    "environment": "Env1r0nmentValue7o",
}
S = SECRETS
SCRIPT = """\
echo >>$0; if [ $(wc -l <$0) != 2 ]; then exit 0; fi
echo 'denied: {"password": "JSON"} JWT '$APP_TOKEN' Authorization: Bearer BEARER' >&2; exit 3"""
SCRIPT = (
    SCRIPT.replace("JSON", S["JSON key"]).replace("JWT", S["JSON web token"]).replace("BEARER", S["bearer"])
)
OPTIONS = (
    f"--password={S['option']} --token {S['next argument']} --id {S['AWS key']}"
    f" https://host/?token={S['token in a URL']}&X-Amz-Signature={S['signature']}"
)
SCENARIO = """\
study: compare
title: {title}
variants:
  - name: first
    command: {first}
    prepare: {prepare}
    env: {{PGPASSWORD: {variable}, APP_KEY: "${{APP_TOKEN}}"}}
  - name: second
    command: {second}
measure: {{target: null, blocks: 3, pilot: 1, seed: 3}}
"""


def texts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below, and of Parquet what it says."""
    import duckdb

    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        with open_inside(path) as file:
            data = file.read()
        if path.suffix == ".parquet":
            data += repr(
                duckdb.connect().execute("select * from read_parquet(?)", [str(path)]).fetchall()
            ).encode()
        yield path, data


def found_in(data: bytes) -> list[str]:
    return [
        kind for kind, secret in SECRETS.items() if secret.encode() in data or quote(secret).encode() in data
    ]


def nothing_in(said: Said) -> Said:
    assert found_in((said.out + said.err).encode()) == [], said
    return said


def nothing_below(folder: Path) -> None:
    shown = {
        str(path): kinds
        for path, data in texts(folder)
        if path.name != "scenario.yaml" and (kinds := found_in(data))
    }
    assert shown == {}


def scenario(home: Home) -> Path:
    path = home.path / "s.yaml"
    first = shlex.join(["sh", "-c", SCRIPT, str(home.path / "once"), *OPTIONS.split(), "${APP_TOKEN}"])
    second = f"sh -c ': mysql -p{S['mysql']} -u root; : \"Authorization: Basic {S['basic']}\"'"
    text = SCENARIO.format(
        title=json.dumps(f"Is --password={S['option']} slower than https://h/?token={S['token in a URL']}?"),
        first=json.dumps(first),
        second=json.dumps(second),
        prepare=json.dumps(f'sh -c \': {{"client_secret": "{S["JSON key"]}"}} {S["AWS key"]}\''),
        variable=S["variable"],
    )
    path.write_text(text, encoding="utf-8")
    return path


def test_no_secret_is_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    env: dict[str, str | None] = {"APP_TOKEN": S["environment"]}
    asked = str(scenario(home))
    for words in (
        ("validate", asked, "--show"),
        ("run", asked, "--dry-run"),
        ("run", asked, "--dry-run", "--json"),
    ):
        nothing_in(home(*words, env=env).fine())
    # The first trial fails, with the secrets in what it says.
    said = nothing_in(home("run", asked, "--runs", str(home.runs), env=env))
    assert said.code in (0, 3), said
    run = home.the_run()
    failed = [row for row in rows(run) if row["status"] == "failed"]
    assert "denied" in failed[0]["hint"], failed
    assert "${APP_TOKEN}" in failed[0]["hint"], "shown by name"
    nothing_below(run)
    kept = run / "scenario.yaml"
    assert set(SECRETS) - set(found_in(kept.read_bytes())) == {"environment", "bearer"} - set(
        found_in(kept.read_bytes())
    )
    assert S["option"] in kept.read_text(encoding="utf-8")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "${APP_TOKEN}" in kept.read_text(encoding="utf-8")

    for form in ("csv", "parquet", "latex", "junit", "openmetrics", "perfetto", "chrome", "svg"):
        nothing_in(home("export", str(run), "--to", form).fine())
    for words in (
        ("report", str(run)),
        ("report", str(run), "-v"),
        ("advise", str(run)),
        ("compare", str(run), str(run)),
        ("sql", str(run), "select * from trials"),
        ("sql", str(run), "select * from trials", "--json"),
        ("sql", str(run), "select * from ledger", "--csv"),
    ):
        nothing_in(home(*words))
    nothing_in(home("run", "--resume", str(run), env=env))
    # Without its variable it cannot go on, and says so before anything.
    home("run", "--resume", str(run), env={"APP_TOKEN": None}).error(2, "APP_TOKEN", "export APP_TOKEN=")
    nothing_below(run)
    served(home, run.name)
    home.nothing_left()


def served(home: Home, run: str) -> None:
    with home.start("serve", "--listen", "127.0.0.1:0", "--json") as process:
        try:
            url = data_in(process.stdout.readline())["url"].rstrip("/")
            pages = [
                "/",
                f"/runs/{run}",
                f"/runs/{run}/report",
                f"/runs/{run}/report.html",
                f"/compare?a={run}&b={run}",
                "/?q=token",
            ]
            answered = 0
            for page in pages:
                try:
                    with urllib.request.urlopen(f"{url}{page}", timeout=30) as answer:
                        data = answer.read()
                        answered += 1
                except HTTPError as error:
                    data = error.read()
                assert found_in(data) == [], page
            assert answered >= 2
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_of_a_run_of_somebody_else_neither(tmp_path: Path) -> None:
    """Written by a contend that masked nothing, or by hand."""
    home = Home(tmp_path)
    env: dict[str, str | None] = {"APP_TOKEN": S["environment"]}
    nothing_in(home("run", str(scenario(home)), "--runs", str(home.runs), env=env))
    run = home.the_run()
    trials = run / "trials.ndjson"
    error = f"it said: --password={S['option']} https://h/?token={S['token in a URL']}\\u001b]0;owned\\u0007"
    trials.write_text(trials.read_text().replace('"error":""', f'"error":"{error}"'))
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(plan | {"command": f"contend ab -- mysql -p{S['mysql']}"}))
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps(environment | {"os": f"Linux password={S['option']}"}))
    for form in ("csv", "junit", "svg", "chrome"):
        nothing_in(home("export", str(run), "--to", form, "-o", str(tmp_path / "exported" / form)).fine())
    for words in (
        ("report", str(run), "-v"),
        ("sql", str(run), "select * from trials"),
        ("compare", str(run), str(run)),
    ):
        said = nothing_in(home(*words))
        assert "\x1b]0;" not in said.out + said.err
    nothing_below(tmp_path / "exported")
    assert found_in((run / "report.html").read_bytes()) == []
    served(home, run.name)


def test_ab_sample_and_imports(tmp_path: Path) -> None:
    home = Home(tmp_path)
    line = (
        f"mytool --password={S['option']} --token {S['next argument']} 'Authorization: Bearer {S['bearer']}'"
    )
    words = ("--blocks", "2", "--target", "none", "--shell", "--prepare", f": PGPASSWORD={S['variable']}")
    nothing_in(home("ab", *words, "--", f": {line}", "--vs", f"true; : {S['JSON web token']}").fine())
    nothing_in(
        home(
            "sample", "-o", str(home.runs / "sampled"), "--", "sh", "-c", f": {line}; sleep 0.3", S["AWS key"]
        ).fine()
    )
    nothing_in(home("report", str(home.runs / "sampled")).fine())
    found = {
        "results": [{"command": f"{line} {n}", "times": [1.0, 1.1, 1.2 + n], "mean": 1.1} for n in range(2)]
    }
    (tmp_path / "hyperfine.json").write_text(json.dumps(found))
    nothing_in(home("import", str(tmp_path / "hyperfine.json"), "--runs", str(home.runs)))
    for run in home.run_directories():
        nothing_below(run)
    assert any("hyperfine" in run.name for run in home.run_directories())


def test_a_variable_that_is_not_set_is_said_before_anything(tmp_path: Path) -> None:
    home = Home(tmp_path)
    words = ("ab", "--blocks", "2", "--target", "none", "--", "test ${SOME_WORD} = x", "--vs", "true")
    home(*words, env={"SOME_WORD": None}).error(2, "no variable SOME_WORD", "export SOME_WORD=")
    assert home.run_directories() == []
    home(*words, env={"SOME_WORD": "x"}).fine()
    run = home.the_run()
    kept = (run / "scenario.yaml").read_text() + (run / "plan.json").read_text()
    assert "test ${SOME_WORD} = x" in kept


def test_the_text_itself(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home("ab", "--blocks", "2", "--target", "none", "--", "test $${HOME} = '$${HOME}'", "--vs", "true").fine()
