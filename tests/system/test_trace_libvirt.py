"""libvirt's own Python binding and its test driver: a hypervisor in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.prerequisites import need
from support.traced_program import begun, said, traced

pytestmark = pytest.mark.system

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
    test = {"kind": "remote", "domain": "test"}
    assert begun(told, "libvirt:virDomainGetInfo") == [test] * 7
    assert begun(told, "libvirt:virDomainSuspend") == begun(told, "libvirt:virDomainResume") == [test]
    assert begun(told, "libvirt:virDomainCreate") == [{"kind": "remote", "domain": "web-17"}]
    for name in ("virConnectOpen", "virNetworkLookupByName", "virDomainSnapshotGetXMLDesc"):
        assert begun(told, f"libvirt:{name}") == [{"kind": "remote"}], name
    names = {span[1] for span in told.spans()}
    assert not names & {"libvirt:virDomainGetName", "libvirt:virDomainGetUUIDString", "libvirt:virDomainFree"}
    assert "secret" not in said([told])
