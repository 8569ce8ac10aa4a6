"""Logging in to a cloud of clouds.yaml or of OS_* variables, through openstacksdk, and what that gives.

openstacksdk is asked who we are, where the services are and how to reach them safely. The requests of a measured storm
then go out without it (see `contend.clouds.http`): its object layer costs several times what the request does.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contend.clouds import config_files
from contend.clouds.access import VERSIONS, Access
from contend.clouds.http import READ_S
from contend.errors import BadInput, CannotHonour, HostFailed, UnknownName, suggest
from contend.text.printable import short

SERVICES = "compute", "network", "image"
_SHAPELESS = (AttributeError, KeyError, TypeError, ValueError)
"""What openstacksdk raises where a list or a number stands for a mapping."""


class Described(NamedTuple):
    """A cloud's description: openstacksdk's CloudRegion, and the clouds.yaml it is in, "" where in none."""

    region: Any
    config: str


def find(cloud: str, config: str = "") -> Described:
    """Find a cloud's description by name; "" takes OS_CLOUD, or the only one there is. Sends nothing.

    `config`: a clouds.yaml to look into and nowhere else. Raises CannotHonour without openstacksdk, UnknownName or
    BadInput where no such cloud is described.
    """
    try:
        from openstack import exceptions
        from openstack.config import OpenStackConfig
    except ImportError as error:
        raise CannotHonour(
            "clouds need openstacksdk, which is not installed", hint="pip install 'contend[openstack]'"
        ) from error
    config_files.check(config)
    config_files.check_trusted()
    try:
        # A recorded file is meant, whatever the environment says by now.
        loader = OpenStackConfig(
            config_files=[config] if config else None, load_envvars=not config, app_name="contend"
        )
        file = loader.config_filename or ""
        known = [name for name in loader.get_cloud_names() if file or name != "defaults"]
    except (exceptions.ConfigException, OSError, *_SHAPELESS) as error:
        raise BadInput(f"the clouds cannot be read: {short(error, 500)}", hint="see clouds.yaml") from error
    wanted = cloud or os.environ.get("OS_CLOUD") or (known[0] if len(known) == 1 else "")
    if not wanted:
        raise CannotHonour(
            "no cloud was named", hint=f"--cloud NAME or OS_CLOUD; known: {', '.join(known) or 'none'}"
        )
    if wanted not in known:
        unknown = UnknownName("cloud", wanted, known)
        unknown.hint = (
            suggest(wanted, known) if known else "describe it in clouds.yaml, or set OS_CLIENT_CONFIG_FILE"
        )
        raise unknown
    try:
        region = loader.get_one(cloud=wanted)
    except (exceptions.ConfigException, *_SHAPELESS) as error:
        raise BadInput(f"cloud '{wanted}' is not fully described: {error}", hint="see clouds.yaml") from error
    for key in ("cacert", "cert", "key"):
        if isinstance(file_of := region.config.get(key), str) and file_of:
            config_files.check_authorities(Path(file_of).expanduser())
    return Described(region, str(Path(file).absolute()) if file else "")


def login(cloud: str, config: str = "", services: Sequence[str] = SERVICES) -> Access:
    """Log in: a new token and the endpoints of `services`, as far as the cloud has them.

    Raises what `find` does, and HostFailed where the cloud does not let us in.
    """
    region, file = find(cloud, config)
    from keystoneauth1 import exceptions

    # What it warns of before it fails would stand above the error; a handler of the program's own still gets it.
    logging.getLogger("keystoneauth").addHandler(logging.NullHandler())
    try:
        session = region.get_session()
        session.timeout = session.timeout or READ_S
        _check_keystone(session)
        access = session.auth.get_access(session)
        endpoints = {service: _endpoint(region, session, service) for service in services}
    except exceptions.ClientException as error:
        raise HostFailed(
            f"cloud '{region.name}' does not let us in: {error}", hint="are its URL, user and password right?"
        ) from error
    certificate = session.cert
    return Access(
        cloud=region.name,
        config=file,
        token=access.auth_token,
        expires=access.expires.timestamp() if access.expires else time.time() + 3600,
        project=access.project_id or "",
        endpoints={service: url.rstrip("/") for service, url in endpoints.items() if url},
        verify=_trusted(session.verify),
        certificate=(certificate, None) if isinstance(certificate, str) else certificate,
        catalogue=_all_urls(access.service_catalog.catalog if access.has_service_catalog() else ()),
    )


def _check_keystone(session: Any) -> None:
    """Raise HostFailed where keystone's address wants a login before it says how to log in.

    keystoneauth 5 waits for its own lock then, for ever. An address that says nothing at all is no reason: keystoneauth
    takes the version from the URL.
    """
    from keystoneauth1 import exceptions

    url = getattr(session.auth, "auth_url", None)
    asking = {"authenticated": False, "raise_exc": False, "headers": {"Connection": "close"}}
    try:
        refused = bool(url) and session.get(url, **asking).status_code == 401
    except exceptions.ClientException:
        return
    if refused:
        raise HostFailed(
            f"{url} answers 401 before a login: it is no keystone", hint="is auth_url of clouds.yaml right?"
        )


def speaks_https(cloud: str, service: str) -> bool:
    """True if the service's endpoint is HTTPS, by the catalogue of a login. Raises what `login` does, and CannotHonour."""
    return login(cloud, services=(service,)).endpoint(service).startswith("https:")


def kept(path: Path, cloud: str, services: Sequence[str]) -> Access:
    """Load the access kept in a run's file, or log in again where there is none or it soon ends. Raises as `login`."""
    access = Access.load(path)
    if access is None or not access.fresh:
        access = login(cloud, services=services)
        access.save(path)
    return access


def _endpoint(region: Any, session: Any, service: str) -> str | None:
    low, high = VERSIONS[service]
    given = region.get_endpoint(service)
    if given:
        return str(given)
    from keystoneauth1.exceptions import EndpointNotFound

    try:
        url: str | None = session.get_endpoint(
            service_type=service,
            interface=region.get_interface(service),
            region_name=region.get_region_name(service),
            min_version=(low, 0),
            max_version=(high, "latest"),
        )
    except EndpointNotFound:  # a cloud without that service
        return None
    return url


def _trusted(verify: bool | str) -> bool | str:
    """Whom the login trusted, in a form that needs no requests: where nothing was said, its own list of authorities."""
    from certifi import where  # what requests goes by

    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    return verify if verify is not True else named or str(where())


def _all_urls(catalogue: Any) -> dict[str, str]:
    """One URL a service type of keystone's catalogue; the public one, if there is one."""
    by_type: dict[str, str] = {}
    for service in catalogue:
        urls = {e.get("interface"): e["url"] for e in service.get("endpoints") or () if e.get("url")}
        if urls:
            by_type[service["type"]] = urls.get("public") or next(iter(urls.values()))
    return by_type
