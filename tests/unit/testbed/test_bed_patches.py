"""Changes in the code of a bed's services: a copy of the package with the change in it, beside what others use."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.testbed.openstack import install, patched
from contend.testbed.openstack.bed import Bed

PATCH = """\
--- a/nova/tracker.py
+++ b/nova/tracker.py
@@ -2 +2 @@
-allocs = fetch()
+allocs = None
"""


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    monkeypatch.setenv("CONTEND_OPENSTACK_PACKAGES", str(tmp_path / "packages"))
    package = install.environment_folder() / "lib/python3.11/site-packages/nova"
    (package / "tests").mkdir(parents=True)
    (package / "tracker.py").write_text("import os\nallocs = fetch()\n", encoding="ascii")
    return Bed.load_or_make(tmp_path / "bed")


def patch(bed: Bed, text: str = PATCH) -> tuple[str, ...]:
    return (str(bed.write("change.patch", text)),)


def test_a_service_gets_a_copy_with_the_change_and_others_nothing(bed: Bed) -> None:
    patches = patch(bed)
    made = patched.patched_folder(bed, patches, "nova-compute-fake-1")
    assert made is not None and made == patched.patched_folder(bed, patches, "nova-api")
    assert (made / "nova/tracker.py").read_text() == "import os\nallocs = None\n"
    assert not (made / "nova/tests").exists()
    (installed,) = install.environment_folder().glob("lib/*/site-packages/nova/tracker.py")
    assert "fetch()" in installed.read_text()
    assert patched.patched_folder(bed, patches, "keystone") is None
    assert patched.digest(patches, "keystone") == "" == patched.digest((), "nova-api")


def test_another_change_is_another_copy(bed: Bed) -> None:
    first = patched.patched_folder(bed, patch(bed), "nova-api")
    assert first != patched.patched_folder(bed, patch(bed, PATCH.replace("None", "{}")), "nova-api")


def test_what_does_not_fit_is_refused_and_leaves_nothing(bed: Bed) -> None:
    with pytest.raises(BadInput, match="a patch of nova does not fit"):
        patched.patched_folder(bed, patch(bed, PATCH.replace("fetch()", "other()")), "nova-api")
    assert [path for path in (bed.root / "patched").iterdir() if not path.name.endswith(".new")] == []
    with pytest.raises(BadInput, match="no unified diff"):
        patched.patched_folder(bed, patch(bed, "hello\n"), "nova-api")
    with pytest.raises(BadInput, match="cannot be read"):
        patched.digest(("/nowhere.patch",), "nova-api")
