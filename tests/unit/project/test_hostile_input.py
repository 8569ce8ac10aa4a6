"""Whatever file, number or text a user hands in: one error with its hint, exit code 2, within seconds and within memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from support.hostile import Contend, contend_server

SECONDS, MEBIBYTES = 8.0, 600.0
SCENARIO = "study: interference\nvictims: [ffmpeg]\nneighbours: [fio]\n"
HEADER = "block,cell,value\n"
URL = "http://127.0.0.1:1/x"


@pytest.fixture(scope="module")
def contend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contend]:
    home = tmp_path_factory.mktemp("hostile")
    with contend_server(home) as server:
        server.file("s.yaml", SCENARIO)
        server.file("s.csv", HEADER + "".join(f"{i},{x},{1 + i / 10}\n" for i in range(8) for x in "ab"))
        os.mkfifo(home / "fifo")
        (home / "folder").mkdir()
        (home / "loop").symlink_to("loop")
        with (home / "sparse").open("wb") as file:
            file.truncate(40 << 30)
        yield server


def _refused(contend: Contend, *words: str, env: Mapping[str, str] | None = None) -> str:
    """What it said."""
    answer = contend(*words, seconds=SECONDS, env=env).refused()
    assert answer.max_rss_mib < MEBIBYTES, answer
    return answer.err


NUMBERS = {
    "infinite": "inf",
    "none": "nan",
    "1e400": "1e400",
    "1e308": "1e308s",
    "digits": "9" * 5000,
    "years": "9" * 17 + "h",
    "escape": "\x1b]0;owned\x07",
    "text": "a" * 100_000,
}
TAKEN = [
    ["run", "s.yaml", "--dry-run", "--budget={}"],
    ["run", "s.yaml", "--dry-run", "--set", "measure.budget={}"],
    ["run", "s.yaml", "--dry-run", "--set", "measure.blocks={}"],
    ["run", "s.yaml", "--dry-run", "--set", "measure.target={}"],
    ["validate", "s.yaml", "--set", "neighbours.fio.limit.iops={}"],
    ["validate", "s.yaml", "--set", "placement={}"],
    ["ab", "--dry-run", "--budget={}", "--", "true", "--vs", "false"],
    ["ab", "--dry-run", "--target={}", "--", "true", "--vs", "false"],
    ["ab", "--dry-run", "--blocks={}", "--", "true", "--vs", "false"],
    ["sample", "--for", "{}"],
    ["sample", "-i", "{}", "--for", "1s"],
    ["watch", "--for", "{}"],
    ["watch", "--alert", "{}"],
    ["stats", "s.csv", "--level", "{}"],
    ["stats", "s.csv", "--scaling", "storm", "--at", "{}"],
    ["hunt", "gone", "--limit", "{}"],
    ["whatif", "gone", "--hold", "lock={}"],
    ["whatif", "gone", "--workers", "pool={}"],
    ["context", "gone", "--image", "{}"],
    ["compare", "gone", "gone", "--fail-above", "{}"],
    ["trace", "--pid", "1", "--for", "{}"],
    ["fetch", URL, "--timeout", "{}"],
    ["fetch", URL, "--rate", "{}"],
    ["fetch", URL, "--cpu-max", "{}"],
]


@pytest.mark.parametrize("words", TAKEN, ids=" ".join)
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_number_that_is_none(contend: Contend, words: list[str], number: str) -> None:
    _refused(contend, *(word.format(number) if "{}" in word else word for word in words))


@pytest.mark.parametrize(
    "setting",
    [
        "a=&a [*a]",
        "a=&a {b: *a}",
        "a=*b",
        "a=" + "[" * 60_000,
        "a=!!python/object/apply:os.system [id]",
        "a={b: 1, b: 2}",
        'a="\\U00110000"',
        "copies=[" + "2, " * 40_000 + "]",
        "copies=" + "2," * 40_000 + "2",
        "measure.blocks=1000000000",
        "measure.seed=-1",
        ".".join("a" * 5000) + "=1",
        "=1",
        "",
    ],
    ids=lambda text: text[:30],
)
def test_a_setting_of_any_shape(contend: Contend, setting: str) -> None:
    _refused(contend, "run", "s.yaml", "--dry-run", "--set", setting)


LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 110)
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        LAUGHS,
        b"a: &a\n  b: *a\n",
        b"? &a [*a]\n: 1\n",
        b"a: " + b"[" * 100_000,
        b"{a: " * 60_000,
        b"- " * 100_000,
        b"study: a\0b\n",
        b"study: caf\xe9\n",
        "study: x".encode("utf-16"),
        b"study: a\nstudy: b\n",
        b"study: !!python/object/apply:os.system [id]\n",
        SCENARIO.encode() + b"measure: {blocks: 1:30}\n",
        SCENARIO.encode() + b"measure: {seed: 2001-01-01}\n",
        SCENARIO.encode() + b"measure: {blocks: 1000000000}\n",
        SCENARIO.encode() + b"measure: {target: .inf}\n",
        b"study: interference\nneighbours: [fio]\nvictims: [" + b"fio, " * 30_000 + b"]\n",
        b"study: interference\n" + b"".join(b"k%d: 1\n" % i for i in range(20_000)),
        b"x: " + b"y" * 2_000_000,
        b'study: "\\U00110000"\n',
    ],
    ids=lambda content: repr(content[:30]),
)
def test_a_scenario_of_any_bytes(contend: Contend, content: bytes) -> None:
    _refused(contend, "run", contend.file("x.yaml", content), "--dry-run")


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/dev/urandom", "fifo", "folder", "loop", "sparse", "gone", ""]
)
@pytest.mark.parametrize(
    "words",
    [
        ["run", "{}", "--dry-run"],
        ["stats", "{}"],
        ["stats", "{}", "--scaling", "storm"],
        ["import", "{}"],
        ["import", "{}", "--as", "jmeter"],
        ["report", "{}"],
        ["hunt", "{}"],
        ["sql", "{}", "select 1"],
        ["export", "{}", "--to", "csv"],
    ],
    ids=" ".join,
)
def test_a_file_that_is_none(contend: Contend, words: list[str], path: str) -> None:
    _refused(contend, *(path if word == "{}" else word for word in words))


NAMED = [
    ["run", "{}", "--dry-run"],
    ["validate", "{}"],
    ["compare", "{}", "{}"],
    ["advise", "{}"],
    ["context", "{}"],
    ["destroy", "{}"],
    ["whatif", "{}"],
    ["run", "--resume", "{}"],
    ["fleet", "start", "--hosts-file", "{}"],
    ["fleet", "join", "{}"],
    ["fleet", "start", "db1", "--ssh-config", "{}"],
    ["fetch", URL.replace("http:", "https:"), "--retries", "0", "--cacert", "{}"],
]


PATHS = ["/dev/zero", "fifo", "folder", "loop", "sparse", "gone", "latin", "packed"]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        pytest.param(words, path, id=f"{' '.join(words)}-{path}")
        for words in NAMED
        for path in PATHS
        if (path, words[-2]) != ("folder", "--cacert")  # a directory of certificates is taken
    ],
)
def test_whatever_file_is_named(contend: Contend, words: list[str], path: str) -> None:
    contend.file("latin", b"caf\xe9\n")
    contend.file("packed", b"\x1f\x8b\x08" + b"\0" * 5_000_000)
    _refused(contend, *(word.replace("{}", path) for word in words))


def test_a_configuration_of_ssh_that_includes_itself(contend: Contend) -> None:
    contend.file("circle", f"Include {contend.home}/circle\n")
    answer = contend("fleet", "start", "db1", "--ssh-config", "circle", seconds=SECONDS)
    assert "includes itself" in answer.refused(code=answer.code).err


@pytest.mark.parametrize("given", ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
@pytest.mark.parametrize(
    "words", [["run", "{}", "--dry-run"], ["validate", "{}"], ["fleet", "join", "{}"]], ids=" ".join
)
def test_stdin_that_is_none(contend: Contend, words: list[str], given: str) -> None:
    for content in (b"", LAUGHS, b"\0" * 2_000_000, b"[" * 200_000, b"\xff", b"{}"):
        answer = contend(*(word.replace("{}", given) for word in words), stdin=content, seconds=SECONDS)
        assert answer.refused().max_rss_mib < MEBIBYTES, answer


CLOUDS = [
    b"",
    LAUGHS,
    b"a: &a\n  b: *a\n",
    b"clouds: " + b"[" * 100_000,
    b"{a: " * 60_000,
    b"clouds: {x: {auth: " + b"{a: " * 5_000 + b"}" * 5_002,
    b"clouds:\n  x: {auth: caf\xe9}\n",
    b"clouds: a\0b\n",
    b"clouds: 5\n",
    b"clouds: [x]\n",
    b"[]",
    b"clouds: {x: 5}\n",
    b"clouds: {x: {auth: 5}}\n",
    b"clouds: {x: {auth: {auth_url: 5}, profile: 7}}\n",
    b"clouds: {x: !!python/object/apply:os.system [id]}\n",
    b"clouds:\n x: {" + b"y" * 100_000_000,
    b"clouds: {x: {auth: {auth_url: 'http://127.0.0.1:1/', username: a, password: b, project_name: c,"
    b" user_domain_name: d, project_domain_name: e}, cacert: /dev/zero}}\n",
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(name, content, id=f"{name}-{content[:40]!r}")
        for name in ("clouds.yaml", "secure.yaml")
        for content in CLOUDS
        # Of the other file openstacksdk takes what it can, within bounds.
        if name == "clouds.yaml" or len(content) > 60_000
    ],
)
def test_a_description_of_clouds_of_any_bytes(contend: Contend, content: bytes, name: str) -> None:
    if name == "secure.yaml":
        contend.file("clouds.yaml", "clouds: {x: {auth: {auth_url: 'http://127.0.0.1:1/'}}}\n")
    contend.file(name, content)
    try:
        _refused(contend, "fetch", "an-image", "--cloud", "x", "--retries", "0")
    finally:
        for made in ("clouds.yaml", "secure.yaml"):
            (contend.home / made).unlink(missing_ok=True)


@pytest.mark.parametrize("path", ["/dev/zero", "fifo", "folder", "loop", "sparse"])
def test_a_description_of_clouds_that_is_no_file(contend: Contend, path: str) -> None:
    (contend.home / "clouds.yaml").symlink_to(path)
    try:
        _refused(contend, "fetch", "an-image", "--cloud", "x", "--retries", "0")
    finally:
        (contend.home / "clouds.yaml").unlink()


@pytest.mark.parametrize("path", ["/dev/zero", "fifo", "sparse"])
@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_authorities_of_the_environment_that_never_end(contend: Contend, variable: str, path: str) -> None:
    contend.file(
        "clouds.yaml",
        "clouds: {x: {auth: {auth_url: 'https://127.0.0.1:1/', username: a, password: b, project_name: c,"
        " user_domain_name: d, project_domain_name: e}}}\n",
    )
    try:
        error = _refused(contend, "fetch", "an-image", "--cloud", "x", "--retries", "0", env={variable: path})
        assert variable in error
    finally:
        (contend.home / "clouds.yaml").unlink()


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "folder", "gone"])
def test_headers_that_never_end(contend: Contend, path: str) -> None:
    _refused(contend, "fetch", URL, "--header", f"@{path}")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HEADER.encode(),
        b"\0" * 100,
        HEADER.encode() + b"1,a,1\n",
        HEADER.encode() + b"1," + b"a" * 5_000_000 + b",1\n",
        HEADER.encode() + b'1,"' + b"a\n" * 500_000,
        HEADER.encode() + b"1,a," + b"9" * 100_000_000,
        b"b" * 100_000_000,
        HEADER.encode() + b"1,a," + b"9" * 5000 + b"\n1,b,2\n",
        HEADER.encode() + b"1,a,inf\n1,b,2\n",
        HEADER.encode() + b"1,caf\xe9,1\n",
        (HEADER + "".join(f"1,c{i},1\n" for i in range(200_000))).encode(),
        HEADER.encode().replace(b",", b";") + b"1;a;1,5\n1;b;1,7\n",
        b"block,cell,value,time\n1,a,1,0001-01-01T00:00:00+14:00\n1,b,1,9999-99-99\n",
        b"block,value\n1,2\n",
        HEADER.encode() + b"1,a\n",
        HEADER.encode() + b"1,\x1b[31m,1\n2,\x1b[31m,1\n",
    ],
    ids=lambda content: repr(content[:40]),
)
def test_a_table_of_any_bytes(contend: Contend, content: bytes) -> None:
    _refused(contend, "stats", contend.file("x.csv", content))
    _refused(contend, "import", "x.csv")


@pytest.mark.needs(os.geteuid() == 0, "only root can give files away")
def test_what_a_stranger_has_laid_into_the_working_directory(contend: Contend) -> None:
    """A scenario of a built-in's name, and a description of clouds, which would be sent this user's passwords."""
    contend.file("noisy-neighbour", "study: interference\nvictims: [./theirs.yaml]\nneighbours: [fio]\n")
    answer = contend("validate", "noisy-neighbour", "--show").calm()
    assert answer.code == 0 and "theirs" not in answer.out
    assert "theirs" in contend("validate", "./noisy-neighbour").err
    contend.file(
        "clouds.yaml",
        "clouds: {x: {auth: {auth_url: 'http://127.0.0.1:1/', username: a, password: b,"
        " project_name: c, user_domain_name: d, project_domain_name: e}}}\n",
    )
    os.chown(contend.home / "clouds.yaml", 65534, -1)
    try:
        said = _refused(contend, "fetch", "an-image", "--cloud", "x", "--retries", "0")
        assert "clouds.yaml of the working directory is not read" in said
        answer = contend(
            "fetch",
            "an-image",
            "--cloud",
            "x",
            "--retries",
            "0",
            env={"OS_CLIENT_CONFIG_FILE": "clouds.yaml"},
        )
        assert "not read" not in answer.err
    finally:
        for name in ("clouds.yaml", "noisy-neighbour"):
            (contend.home / name).unlink()
