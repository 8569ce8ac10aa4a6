"""Names that strangers choose, with terminal sequences and bytes that are no text, stop nothing and reach no terminal."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.bystander import bystander
from support.command_line import Home, Said

BAD = b"\xff\x1b]0;owned\x07"  # no UTF-8, sets a title
PLACE = b"/mount-" + BAD
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
BIDI, C1 = "\u202eevil", "\x9b31mred"
# What may be sent to a terminal that is none: text, line ends, tabs.
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Path]:
    """A busy process and a control group with names of that kind, and a directory for `mounted`."""
    group = b"/sys/fs/cgroup/stranger-" + BAD
    os.mkdir(os.fsencode(tmp_path) + PLACE)  # noqa: PTH102 - bytes
    with contextlib.ExitStack() as stack:
        stack.enter_context(bystander(BAD, BAD))
        with contextlib.suppress(OSError):
            os.mkdir(group)  # noqa: PTH102
            stack.callback(os.rmdir, group)
        yield tmp_path


def mounted(place: Path) -> Callable[[], None]:
    """Gives a process mounts of its own, one with such a name among them, where the user may. They end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    target = os.fsencode(place) + PLACE

    def enter() -> None:
        if libc.unshare(CLONE_NEWNS) == 0:
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
            if libc.mount(b"none", target, b"tmpfs", 0, b"size=64k"):
                os._exit(99)

    return enter


def clean(said: Said, words: tuple[str, ...]) -> Said:
    said.no_traceback()
    for text in (said.out, said.err):
        found = _RAW.search(text.replace("\n", ""))
        assert found is None, (
            f"{found[0]!r} of {' '.join(words)}: {text[max(0, found.start() - 80) : found.end() + 40]!r}"
        )
    return said


def test_names_of_strangers_reach_no_terminal(strangers: Path) -> None:
    home, enter = Home(strangers), mounted(strangers)

    def ask(*words: str) -> Said:
        return clean(home(*words, errors="replace", preexec_fn=enter), words)

    sampled, watched = str(home.runs / "sampled"), str(home.runs / "watched")
    ask("sample", "-o", sampled, "--", "sleep", "0.6").fine()
    ask("watch", "--for", "2s", "--by", "process", "-o", watched).fine()
    assert ask("watch", "--for", "1s", "--by", "process", "--json").json()
    assert ask("doctor", "--json").json()
    for words in (
        ("doctor",), ("list", "runs"), ("list", "--json"), ("report", sampled), ("report", watched),
        ("sql", sampled, "select name, sum(user_ns) from process_use group by name"),
        ("sql", sampled, "select * from process_use limit 200", "--csv"),
        ("destroy", "--all"), ("run", f"no-{C1}-{BIDI}-\x1b[2Jsuch"), ("sql", "/nowhere\x1b[2J", "select 1"),
        ("report", f"/nowhere/{BIDI}\x07"), ("hunt", f"/nowhere/{C1}"), ("stats", f"/nowhere/{BIDI}"),
        (f"verb-{C1}\x1b[2J",), ("run", "noisy-neighbour", "--no-\x1b[2J"), ("compare", "/a\x1b[2J", "/b\r"),
    ):  # fmt: skip
        ask(*words)
    for form in ("csv", "openmetrics", "chrome"):
        ask("export", sampled, "--to", form).fine()
    pages = [path.read_text(encoding="utf-8") for path in home.runs.rglob("*.html")]
    assert pages
    for page in pages:
        assert "\x1b" not in page
        assert "\x07" not in page


def test_titles_errors_and_branches_neither(tmp_path: Path) -> None:
    """Of a scenario, of a command that fails, of a file that is damaged; on a terminal too."""
    home = Home(tmp_path)
    (tmp_path / "says").write_bytes(b"\x1b]0;owned\x07\x9b31m failed \xff\xe2\x80\xaeevil\r\n")
    words = ("ab", "--blocks", "2", "--target", "none", "--name", "a", "--name", "b", "--",
             f"sh -c 'cat {tmp_path}/says >&2; exit 3'", "--vs", "true")  # fmt: skip
    clean(home(*words, errors="replace"), words)
    (tmp_path / "s.yaml").write_text(
        'study: compare\ntitle: "a\\e]0;owned\\ab \\u202eevil"\nvariants:\n  - {name: x, command: "true"}\n'
        '  - {name: y, command: "true"}\nmeasure: {blocks: 2, target: null, pilot: 1}\n'
    )
    for words_ in (("validate", "s.yaml"), ("run", "s.yaml", "--dry-run"), ("run", "s.yaml")):
        clean(home(*words_, errors="replace"), words_)
    for run in home.run_directories():
        for words_ in (("report", str(run), "-v"), ("report", str(run), "--json"), ("list", "runs")):
            clean(home(*words_, errors="replace"), words_)
    pages = list(home.runs.glob("*/*.html"))
    assert pages
    for page in pages:
        assert "\x1b" not in page.read_text(encoding="utf-8")
    home.nothing_left()
