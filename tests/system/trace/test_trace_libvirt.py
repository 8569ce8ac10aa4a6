"""libvirt's own Python binding and its test driver: a hypervisor in memory."""

from __future__ import annotations

import os
from pathlib import Path

from support.prerequisites import need
from support.traced_program import begun, said, traced

# Debian's binding is for Debian's Python.
PYTHON, BINDING = "/usr/bin/python3", Path("/usr/lib/python3/dist-packages/libvirt.py")

PROGRAM = """
    import libvirt
    connection = libvirt.open("test:///default")
    (domain,) = connection.listAllDomains()
    assert domain.name() == "test" and domain.UUIDString() and domain.isActive()
    for _ in range(7): domain.info()
    domain.suspend(); domain.resume()
    network = connection.networkLookupByName("default"); assert network.isActive()
    snapshot = domain.snapshotCreateXML("<domainsnapshot><name>s</name></domainsnapshot>"); snapshot.getXMLDesc()
    connection.defineXML("<domain type='test'><name>web-17</name><memory>8192</memory>"
        "<description>secret</description><os><type>hvm</type></os></domain>").create()
    libvirt.registerErrorHandler(lambda *_: None, None)
    try: connection.lookupByName("none")
    except libvirt.libvirtError as error: assert error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN
    else: raise SystemExit("no error")
    connection.close()
"""


def test_calls_with_the_domains_name(tmp_path: Path) -> None:
    need(BINDING.exists(), "libvirt's binding: apt-get install python3-libvirt")
    (told,) = traced(tmp_path, PROGRAM, python=PYTHON, path=os.environ.get("PYTHONPATH", ""))

    def calls(name: str) -> tuple[list[dict[str, object]], list[object]]:
        """And the digests of their arguments."""
        found = begun(told, f"libvirt:{name}")
        return found, [call.pop("arguments", None) for call in found]

    test = {"kind": "remote", "domain": "test"}
    asked, digests = calls("virDomainGetInfo")
    assert asked == [test] * 7 and len(set(digests)) == 1 and digests[0] is not None
    assert calls("virDomainSuspend")[0] == calls("virDomainResume")[0] == [test]
    assert calls("virDomainCreate")[0] == [{"kind": "remote", "domain": "web-17"}]
    for name in ("virConnectOpen", "virNetworkLookupByName", "virDomainSnapshotGetXMLDesc"):
        asked, digests = calls(name)
        # Of a snapshot's handle nothing is known.
        assert asked == [{"kind": "remote"}] and (digests == [None]) == ("Snapshot" in name), name
    names = {span[1] for span in told.spans()}
    assert not names & {"libvirt:virDomainGetName", "libvirt:virDomainGetUUIDString", "libvirt:virDomainFree"}
    assert "secret" not in said([told])
