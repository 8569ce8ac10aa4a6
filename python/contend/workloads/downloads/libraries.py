"""One download by a Python library, as its documentation says: `python libraries.py NAME BASE IMAGE OUT CA SHA512`.

The token is on stdin. A program of its own that imports nothing of contend: its processor time is the library's.
"""

import sys


def by_requests(base: str, image: str, token: str, out: str, authority: str, sha512: str) -> None:
    import hashlib

    import requests

    url, digest = f"{base}/v2/images/{image}/file", hashlib.sha512()
    headers = {"X-Auth-Token": token}
    with requests.get(url, headers=headers, stream=True, verify=authority or True, timeout=60) as answer:
        answer.raise_for_status()
        with open(out, "wb") as file:  # noqa: PTH123
            for chunk in answer.iter_content(chunk_size=1 << 20):
                if sha512:
                    digest.update(chunk)
                file.write(chunk)
    if sha512 and digest.hexdigest() != sha512:
        sys.exit("error: the checksum differs")


def by_glanceclient(base: str, image: str, token: str, out: str, authority: str, sha512: str) -> None:
    from glanceclient import Client

    del sha512  # Glance's own word is verified
    glance = Client("2", endpoint=base, token=token, cacert=authority or None)
    with open(out, "wb") as file:  # noqa: PTH123
        for chunk in glance.images.data(image):
            file.write(chunk)


def by_openstacksdk(base: str, image: str, token: str, out: str, authority: str, sha512: str) -> None:
    _sdk(base, token, authority).image.download_image(image, output=out)


def by_openstacksdk_stream(base: str, image: str, token: str, out: str, authority: str, sha512: str) -> None:
    _sdk(base, token, authority).image.download_image(image, stream=True, output=out)


def _sdk(base: str, token: str, authority: str):  # type: ignore[no-untyped-def]
    import openstack

    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type="admin_token",  # a token and an endpoint, as they are
        auth={"endpoint": base, "token": token},
        image_endpoint_override=base,  # it looks for the version there: below /v2, Glance tells none
        cacert=authority or None,
    )


LIBRARIES = {
    "requests": by_requests,
    "glanceclient": by_glanceclient,
    "openstacksdk": by_openstacksdk,
    "openstacksdk-stream": by_openstacksdk_stream,
}

if __name__ == "__main__":
    name, base, image, *rest = sys.argv[1:]
    LIBRARIES[name](base, image, sys.stdin.read().strip(), *rest)
