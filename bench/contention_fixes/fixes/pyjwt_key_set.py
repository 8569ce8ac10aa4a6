"""PyJWT: the set of keys was fetched again for each key that was not yet known."""

from __future__ import annotations

import base64
import json
import time

import jwt
from jwt import PyJWKClient
from loopback import serve_http
from storm_of_jobs import in_threads

FIX = {
    "project": "PyJWT",
    "before": ["PyJWT==2.4.0"],
    "after": ["PyJWT==2.5.0"],
    "link": "https://github.com/jpadilla/pyjwt/pull/781",
    "did": "PyJWKClient keeps the set of keys for a while",
    "edit": ["--remove", "HTTP GET *"],
    "fits": "exact: before the storm the set was fetched once",
}
JOBS = 24
KEYS = 24
FETCH_S = 0.012
WORK_S = 0.05


def key_set(_: str) -> bytes:
    secret = base64.urlsafe_b64encode(b"of a test" * 4).decode().rstrip("=")
    keys = [{"kty": "oct", "alg": "HS256", "use": "sig", "kid": f"key-{k}", "k": secret} for k in range(KEYS)]
    return json.dumps({"keys": keys}).encode()


def main() -> None:
    """The service that has the keys answers one request at a time; its keys are not fetched before the storm."""
    port = serve_http(lambda _: FETCH_S, key_set, at_once=False)
    client = PyJWKClient(f"http://127.0.0.1:{port}/keys")
    tokens = [
        jwt.encode({"of": k}, b"of a test" * 4, "HS256", headers={"kid": f"key-{k % KEYS}"})
        for k in range(JOBS)
    ]

    def job(number: int) -> None:
        time.sleep(WORK_S)
        key = client.get_signing_key_from_jwt(tokens[number])
        assert jwt.decode(tokens[number], key.key, ["HS256"])["of"] == number

    job(0)
    in_threads(job, JOBS, spacing_s=0.002)


main()
