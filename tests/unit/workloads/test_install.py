"""What is missing on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.platforms import programs
from contend.workloads import install
from contend.workloads.spec import Workload


def workload(command: list[str], apt: list[str], note: str = "") -> Workload:
    metrics = {"wall": {"builtin": "wall", "unit": "s", "better": "lower"}}
    needs = {"command": command, "apt": apt, "note": note}
    fields = {"install": needs, "metrics": metrics, "dominant": "cpu", "trial": 1}
    return Workload.model_validate({"name": "t", "run": "t"} | fields)


def test_missing_commands_name_the_packages_and_what_to_type() -> None:
    lacking = workload(["sh", "no-such-tool"], ["no-such-package"])
    assert install.missing(lacking) == ("no-such-tool",)
    assert install.packages([lacking, workload(["sh"], ["dash"])]) == ("no-such-package",)
    assert install.hint([lacking]) == "apt-get install no-such-package"


def test_what_has_no_package_is_said_plainly() -> None:
    lacking = workload(["no-such-tool"], [], "it comes with the database")
    assert install.hint([lacking]) == "put no-such-tool on PATH; it comes with the database"


def test_a_file_that_a_package_brings_is_missing_like_a_command(tmp_path: Path) -> None:
    there, absent = tmp_path / "there", tmp_path / "absent"
    there.touch()
    lacking = workload(["sh"], ["site"])
    needs = lacking.install.model_copy(update={"file": (str(there), str(absent))})
    lacking = lacking.model_copy(update={"install": needs})
    assert install.missing(lacking) == (str(absent),)
    assert install.hint([lacking]) == "apt-get install site"


def test_a_module_that_python_lacks_is_missing_without_its_package() -> None:
    lacking = workload(["sh"], ["dash"], "pip install it")
    lacking = lacking.model_copy(
        update={"install": lacking.install.model_copy(update={"module": ("json", "no_such_module")})}
    )
    assert install.missing(lacking) == ("no_such_module",)
    assert install.packages([lacking]) == ()
    assert install.hint([lacking]) == "pip install it"


def test_a_program_in_sbin_is_found_by_a_user_without_it_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = [p for p in map(install.find_command, ("ip", "nginx", "runc", "ldconfig")) if p is not None]
    assert found, "neither of four programs in /usr/sbin or /sbin"
    assert all(p.parent in (Path("/usr/sbin"), Path("/sbin"), Path("/usr/local/sbin")) for p in found)
    assert programs.find_command("no-such-tool") is None
