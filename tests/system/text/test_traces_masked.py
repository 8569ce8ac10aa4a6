"""What a traced program says of itself is masked where the trace is read: in reports, exports and tables."""

from __future__ import annotations

from pathlib import Path

from support.command_line import Home

SECRET, TOKEN = "Tr4cedPw5q", "Tr4cedToken6w"
PROGRAM = f"""
import threading, time
from contend import trace
for n in range(20):
    with trace.span("login --password={SECRET} at https://h/?token={TOKEN}"):
        time.sleep(0.002)
    with trace.span("plain work"):
        time.sleep(0.001)
"""


def test_no_secret_of_a_trace_is_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    home("trace", "-o", "traced", "--", "python3", "program.py").fine()
    trace = tmp_path / "traced"
    raw = b"".join(path.read_bytes() for path in trace.glob("*.ctrace"))
    assert SECRET.encode() in raw, "else this test proves nothing"
    said = [
        home("export", str(trace), "--to", form, "-o", f"trace.{form}").fine()
        for form in ("perfetto", "chrome")
    ]
    said += [home("report", str(trace)).fine(), home("report", str(trace), "--json")]
    said += [
        home("hunt", str(trace), "--job", "login*"),
        home("sql", str(trace), "select * from jobs", "--job", "login*"),
    ]
    written = [path.read_bytes() for path in (*tmp_path.glob("trace.*"), *trace.glob("*.html"))]
    assert len(written) >= 3
    for data in (*written, *((each.out + each.err).encode() for each in said)):
        assert SECRET.encode() not in data
        assert TOKEN.encode() not in data
    assert b"plain work" in written[0]
    assert any(b"login --password=***" in data for data in written)
