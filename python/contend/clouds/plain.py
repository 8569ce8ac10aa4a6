"""Logging in to a cloud that is described plainly: a password in clouds.yaml, for one project of keystone's version 3.

openstacksdk would do the same, at twenty times the processor time, nearly all of it imports. Whatever is said beyond that
(other plug-ins, profiles, secrets in other files, OS_* variables, overridden endpoints) is left to it: None is given.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from contend.clouds.access import VERSIONS, Access, all_urls, trusted
from contend.clouds.config_files import SUFFIXES, check_authorities, check_in_working_directory, folders
from contend.clouds.http import CONNECT_S, READ_S, proxy_for, tls_context
from contend.clouds.wire import Lost, NotSent, Received, Untrusted, Wire, split_url
from contend.errors import BadInput, HostFailed

_CLOUD = frozenset(
    {"auth", "auth_type", "region_name", "interface", "identity_api_version", "verify", "cacert"}
)
_USER, _PROJECT = ("username", "user_id"), ("project_name", "project_id")
_DOMAINS = ("user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id")
_AUTH = frozenset({"auth_url", "password", *_USER, *_PROJECT, *_DOMAINS})
_VERSIONED = re.compile(r"/v(\d+)(?:\.\d+)?(?:/[0-9a-f]{32})?/?$")
_OTHER_NAMES = {"block-storage": ("block-store", "volume", "volumev2", "volumev3")}
_HEADERS = {"Accept": "application/json", "User-Agent": "contend"}


class Plain(NamedTuple):
    """A cloud of clouds.yaml, as far as it is understood here."""

    name: str
    file: str
    auth: Mapping[str, str]
    region: str
    interface: str
    verify: bool | str

    def __repr__(self) -> str:  # no password
        return f"Plain({self.name})"


def described(cloud: str, config: str = "") -> Plain | None:
    """The cloud of that name, by the rules of `login.find`; None unless it is described plainly.

    Raises BadInput for certificates that cannot be read within bounds.
    """
    allowed = ("OS_CLOUD", "OS_CLIENT_CONFIG_FILE")
    if not config and any(name.startswith("OS_") and name not in allowed for name in os.environ):
        return None
    file = _file(config)
    if file is None:
        return None
    import yaml

    from contend.scenario.yaml_file import check_yaml

    try:
        told = yaml.load(check_yaml(file), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (BadInput, ValueError, yaml.YAMLError):  # of files that cannot be read `login.find` says why
        return None
    clouds = told.get("clouds") if isinstance(told, dict) and set(told) == {"clouds"} else None
    if not isinstance(clouds, dict):
        return None
    only = next(iter(clouds)) if len(clouds) == 1 else ""
    name = cloud or ("" if config else os.environ.get("OS_CLOUD", "")) or only
    found = clouds.get(name)
    if not isinstance(found, dict) or not _is_plain(found):
        return None
    verify = found.get("verify", True)
    if verify and "cacert" in found:
        verify = str(Path(found["cacert"]).expanduser())
        check_authorities(verify)
    return Plain(
        name,
        str(file.absolute()),
        found["auth"],
        str(found.get("region_name") or ""),
        str(found.get("interface", "public")),
        trusted(verify),
    )


def _file(config: str) -> Path | None:
    """clouds.yaml where openstacksdk finds it; None where there is none, or something that adds to it."""
    if os.environ.get("XDG_CONFIG_DIRS"):
        return None
    if any((folder / f"secure{suffix}").exists() for folder in folders() for suffix in SUFFIXES):
        return None
    named = config or os.environ.get("OS_CLIENT_CONFIG_FILE", "")
    if named and Path(named).exists():
        return Path(named)
    files = (folder / f"clouds{suffix}" for folder in folders() for suffix in SUFFIXES)
    found = None if config else next((file for file in files if file.exists()), None)
    if found is not None:
        check_in_working_directory(found)
    return found


def _is_plain(found: Mapping[str, Any]) -> bool:
    auth = found.get("auth")
    if not isinstance(auth, dict) or not set(found) <= _CLOUD or not set(auth) <= _AUTH:
        return False
    texts = [value for key, value in {**found, **auth}.items() if key not in ("auth", "verify", "password")]
    # openstacksdk fills in what is in braces.
    if not all(isinstance(t, str | int) and "{" not in str(t) for t in texts):
        return False
    return (
        isinstance(found.get("verify", True), bool)
        and found.get("auth_type", "password") in ("password", "v3password")
        and str(found.get("identity_api_version", 3)) == "3"
        and found.get("interface", "public") in ("public", "internal", "admin")
        and all(isinstance(value, str) for value in auth.values())
        and str(auth.get("auth_url", "")).rstrip("/").endswith("/v3")
        and "password" in auth
        and sum(key in auth for key in _USER) == sum(key in auth for key in _PROJECT) == 1
        and ("user_id" in auth or sum(key in auth for key in _DOMAINS[:2]) == 1)
        and ("project_id" in auth or sum(key in auth for key in _DOMAINS[2:]) == 1)
    )


def login(cloud: str, config: str, services: Sequence[str]) -> Access | None:
    """As `login.login`; None where openstacksdk has to do it. Raises HostFailed where we are not let in."""
    plain = described(cloud, config)
    if plain is None:
        return None
    access = Access(plain.name, plain.file, "", 0.0, "", {}, plain.verify)
    wire = Wire(
        keep=1,
        connect_s=CONNECT_S,
        read_s=READ_S,
        context=lambda: tls_context(access),
        proxy=proxy_for,
        now_ns=time.monotonic_ns,
    )
    try:
        answer = _ask(wire, plain)
        told = json.loads(answer.body)["token"]
        token, catalogue = answer.headers["X-Subject-Token"], told["catalog"]
        endpoints = {service: _endpoint(wire, plain, catalogue, service) for service in services}
        if None in endpoints.values():
            return None
        return access._replace(
            token=token,
            expires=datetime.datetime.fromisoformat(told["expires_at"]).timestamp(),
            project=told["project"]["id"],
            endpoints={service: url.rstrip("/") for service, url in endpoints.items() if url},
            catalogue=all_urls(catalogue),
        )
    except (NotSent, Untrusted, Lost, KeyError, TypeError, ValueError):
        return None  # openstacksdk may know better; what it says of it is at least well known
    finally:
        wire.close()


def _ask(wire: Wire, plain: Plain) -> Received:
    """For a token. Raises HostFailed where the password is wrong: a second attempt would count as one more."""
    auth = plain.auth
    user = _named(auth, "username", "user_id", "user_domain")
    scope = {"project": _named(auth, "project_name", "project_id", "project_domain")}
    identity = {"methods": ["password"], "password": {"user": {**user, "password": auth["password"]}}}
    body = json.dumps({"auth": {"identity": identity, "scope": scope}}).encode()
    url = auth["auth_url"].rstrip("/") + "/auth/tokens"
    answer = wire.exchange("POST", url, {**_HEADERS, "Content-Type": "application/json"}, body)
    if answer.status in (401, 403):
        raise HostFailed(
            f"cloud '{plain.name}' does not let us in: {answer.status}",
            hint="are its URL, user and password right?",
        )
    if answer.status != 201:
        raise ValueError(f"no token, but {answer.status}")
    return answer


def _named(auth: Mapping[str, str], name: str, id_: str, domain: str) -> dict[str, Any]:
    if id_ in auth:
        return {"id": auth[id_]}
    by = "id" if f"{domain}_id" in auth else "name"
    return {"name": auth[name], "domain": {by: auth[f"{domain}_{by}"]}}


def _endpoint(wire: Wire, plain: Plain, catalogue: Any, service: str) -> str | None:
    """Its versioned URL, "" where the cloud has no such service; None where that is not plain."""
    if any(entry["type"] in _OTHER_NAMES.get(service, ()) for entry in catalogue):
        return None
    urls = [
        endpoint["url"]
        for entry in catalogue
        if entry["type"] == service
        for endpoint in entry["endpoints"]
        if endpoint["interface"] == plain.interface
        and (not plain.region or endpoint["region_id"] == plain.region)
    ]
    if not urls:
        return ""
    url, major = str(urls[0]), VERSIONS[service][0]
    if known := _VERSIONED.search(url):
        return url if int(known[1]) == major else None
    answer = wire.exchange("GET", url, _HEADERS, None)
    if answer.status not in (200, 300):
        return None
    versions = [
        (tuple(int(part) for part in version["id"].removeprefix("v").split(".")), link["href"])
        for version in json.loads(answer.body)["versions"]
        if version["status"].upper() in ("CURRENT", "SUPPORTED", "STABLE")
        for link in version["links"]
        if link["rel"] == "self"
    ]
    href = max((v for v in versions if v[0][0] == major), default=(None, None))[1]
    if href is None:
        return None
    found = urljoin(url.rstrip("/") + "/", href)
    # What answers behind a proxy may not know how it is reached.
    return found if split_url(found)[0] == split_url(url)[0] else None
