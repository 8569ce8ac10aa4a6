"""Off-CPU stacks of a recording of known content, and their picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.report import stack_plot
from contend.sample.session import Order
from contend.sample.stacks import Stack, longest, read_stacks
from contend.store.directory import SAMPLE_FILE
from support.made_samples import made_sample, stack_table, told


def test_they_are_the_commands_where_there_is_one(tmp_path: Path) -> None:
    """read is the command, and wait its child."""
    run = made_sample(tmp_path / "run", stacks=True)
    found = read_stacks(run)
    assert found.of_command
    assert [(s.subject, s.off_cpu_s, s.count) for s in found.stacks] == [
        ("read<&>'\"", 15.0, 3000), ("wait", 7.5, 300), ("wait", 3.75, 150),
    ]  # fmt: skip
    assert found.stacks[0].frames[0] == "main+0x10"
    everyone = read_stacks(run, everyone=True)
    assert not everyone.of_command
    assert everyone.stacks[0].subject == "idle"


def test_they_are_everybodys_without_a_command_and_none_where_none_were_recorded(tmp_path: Path) -> None:
    assert len(read_stacks(made_sample(tmp_path / "all", stacks=True, pid=None)).stacks) == 4
    assert read_stacks(made_sample(tmp_path / "none")).stacks == ()


def test_threads_and_cgroups_keep_their_names(tmp_path: Path) -> None:
    """Names hold colons and slashes of their own, as kworker/0:1 does."""
    from contend.probes.series import SeriesWriter

    subjects = {
        "process": {"kworker/0:1:77": "kworker/0:1"},
        "thread": {"kworker/0:1:77/kworker/0:1:78": "kworker/0:1/kworker/0:1", "qemu:5/CPU 0/KVM:6": "qemu/CPU 0/KVM"},
        "cgroup": {"/a:1/b:2": "/a:1/b:2"},
    }  # fmt: skip
    for by, names in subjects.items():
        for subject, name in names.items():
            run = made_sample(tmp_path / f"{by}{len(subject)}", 2)
            table = stack_table(1)
            columns = {column: values[:1] for column, values in table.columns.items()}
            writer = SeriesWriter(run.series)
            writer.add({"sched_stack": type(table)(columns, {**table.names, "subject": [subject]})})
            writer.close()
            run.write_json(SAMPLE_FILE, told(2, sched=by, pid=77))
            assert [s.subject for s in read_stacks(run).stacks] == [name]


def test_what_reads_the_same_is_one(tmp_path: Path) -> None:
    """Two addresses without a name are no two places."""
    (first, second) = longest(read_stacks(made_sample(tmp_path / "run", stacks=True)).stacks, 5)
    assert first.off_cpu_s == 15.0
    assert second == Stack(
        "wait", ("[unknown]", "libc.so.6+0x30", "__x64_sys_futex_[k]", "futex_wait_[k]"), 11.25, 450
    )


def test_a_call_lies_within_the_one_that_made_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = read_stacks(made_sample(tmp_path / "run", stacks=True), everyone=True)
    boxes = stack_plot.boxes(found.stacks)
    tops = [(b.name, b.start, b.end) for b in boxes if b.depth == 0]
    assert tops == [("idle", 0, 30), ("read<&>'\"", 30, 45), ("wait", 45, 56.25)]
    for box in boxes:
        assert not box.depth or any(
            above.depth == box.depth - 1 and above.start <= box.start and box.end <= above.end
            for above in boxes
        )
    monkeypatch.setattr(stack_plot, "FRAMES", 5)
    fewer = stack_plot.boxes(found.stacks)
    assert len(fewer) == 5
    assert min(b.end - b.start for b in fewer) == 15
    assert set(fewer) <= set(boxes)
    assert stack_plot.stack_plot(read_stacks(made_sample(tmp_path / "none"))) is None


def test_stacks_without_histograms_are_a_mistake() -> None:
    with pytest.raises(BadInput, match="needs --sched"):
        Order(1_000_000_000, ("true",), stacks=True)
