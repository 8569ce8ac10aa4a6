"""libvirt: each call that goes to its daemon is a span, with the name of the domain it is for."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import trace_digest, trace_on
from contend.trace.imports import hooks

# What libvirt.py asks of the C library; of that, what only looks at or frees what is in memory stays as it is.
_CALLS = re.compile(
    r"vir(Connect|Domain|Network|Interface|Storage|NodeDevice|NodeGet|NodeSet|NodeSuspend|NodeAlloc|Secret|NWFilter|Stream)"
)
_LOCAL = re.compile(
    r"\w+(GetName|GetUUID|GetUUIDString|GetConnect|GetDomain|GetKey|GetMACString|GetUsageID|GetUsageType|Free|Ref)$"
    r"|virConn(GetLastError|ResetLastError|SetErrorFunc)\w*|virConnect(Register|Unregister)CloseCallback"
)


def patch(native: ModuleType) -> None:
    """The C module, in which libvirt.py looks its functions up at each call."""
    name_of = getattr(native, "virDomainGetName", None)
    for name, function in list(vars(native).items()):
        if isinstance(function, BuiltinFunctionType) and _CALLS.match(name) and not _LOCAL.match(name):
            hooks.put(native, name, _calls(function, name, name_of))


def _calls(
    original: Callable[..., Any], name: str, name_of: Callable[[Any], Any] | None
) -> Callable[..., Any]:
    title = f"libvirt:{name}"

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        if not trace_on():
            return original(*args, **options)
        domain = _domain(args[0], name_of) if args and name_of is not None else None
        attributes: dict[str, Any] = {} if domain is None else {"domain": domain}
        digest = trace_digest(domain or _connection(args), args[1:], options)
        if digest is not None:
            attributes["arguments"] = digest
        with Span(title, kind="remote", **attributes):
            return original(*args, **options)

    return call


def _connection(args: tuple[Any, ...]) -> object:
    """A connection is what its address says as long as it is there; other handles say nothing of what they are of."""
    if args and type(args[0]).__name__ == "PyCapsule":
        text = repr(args[0])
        return text if '"virConnectPtr"' in text else args[0]
    return args[0] if args else None


def _domain(handle: object, name_of: Callable[[Any], Any]) -> str | None:
    """The name in a handle of a domain. The C module takes any handle for what it expects: ask which one it is."""
    if type(handle).__name__ != "PyCapsule" or '"virDomainPtr"' not in repr(handle):
        return None
    name = name_of(handle)
    return name if isinstance(name, str) else None
