"""Options and arguments by which well-known programs are given a password: `mysql -pX`, `curl -u me:X`, `redis-cli -a X`.

`-p` is a port or a directory elsewhere, so each program has its own.
What they share (`--password=X`) is in `contend.text.masking`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

MASK = "***"
_BY_NAME = (
    r"(?!\$|\*{3}|<\w)"  # `${NAME}` stands for a secret by name, and is shown; so is what is masked already
)
_WORD = r"(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)"


class Program(NamedTuple):  # no dataclass: a storm's client is to start at once
    """Patterns of how one kind of program is given a secret.

    names: a pattern of its name. next: options that a secret follows as the next word; glued: those it is glued to.
    after: in the value the secret is what comes after this, as in `me:secret`. needs: a word that must come before, as in
    `docker login`. patterns: of its arguments, the secret in group 2, what comes before in group 1.
    """

    names: str
    next: tuple[str, ...] = ()
    glued: tuple[str, ...] = ()
    after: str = ""
    needs: str = ""
    patterns: tuple[str, ...] = ()


PROGRAMS = (
    Program(r"(?:mysql|mariadb)[\w-]*", glued=("-p",)),
    Program("sshpass", next=("-p",), glued=("-p",)),
    Program("redis-cli|redis-benchmark|valkey-cli", next=("-a", "--pass")),
    Program("redis-server|valkey-server", next=("--requirepass", "--masterauth")),
    Program("curl", ("-u", "--user", "--proxy-user", "-U"), glued=("-u", "-U", "--user=", "--proxy-user="), after=":"),
    Program("http|https|xh", ("-a", "--auth"), after=":"),
    Program("ab", ("-A", "-P"), after=":"),
    Program("ldap(?:search|add|modify|delete|whoami|passwd)", next=("-w",), glued=("-w",)),
    Program("smbclient|rpcclient|smbget", ("-U", "--user"), glued=("-U", "--user="), after="%"),
    Program("mongo(?:sh|dump|restore|export|import|stat|top)?|cqlsh|rabbitmqadmin|influx|clickhouse-client", next=("-p",)),
    Program("docker|podman|nerdctl|buildah|skopeo|helm|oc|oras", next=("-p",), glued=("-p=",), needs="login"),
    Program("skopeo", ("--creds", "--src-creds", "--dest-creds"), after=":"),
    Program("openssl", next=("-k", "-K"), patterns=(r"(\s-pass(?:in|out)?\s+pass:)(\S+)",)),
    Program("zip|unzip|ipmitool|sqlcmd|bcp", next=("-P",), glued=("-P",)),
    Program("7z[ar]?|rar|unrar", glued=("-p",)),
    Program(r"mosquitto_(?:pub|sub|rr)", next=("-P", "--pw")),
    Program(r"snmp(?:walk|get|getnext|set|bulkwalk|bulkget|table|status|trap)", next=("-A", "-X", "-c")),
    Program("lftp", ("-u", "--user"), after=","),
    Program("x?freerdp3?", patterns=(r"(\s/p:)(\S+)",)),
    Program("swift|s3cmd", next=("-K", "--key")),
    Program("rabbitmqctl", patterns=(rf"(\s(?:add_user|change_password|authenticate_user)\s+\S+\s+)({_WORD})",)),
    Program("htpasswd", patterns=(rf"(\s-\w*b\w*\s+\S+\s+\S+\s+)({_WORD})", rf"(\s-\w*n\w*b\w*\s+\S+\s+)({_WORD})")),
    Program("vault", patterns=(r"(\slogin\s+(?:-[\w=-]+\s+)*)([^\s=-][^\s=]*)(?=\s|$)",)),
    Program("chpasswd", patterns=(r"(\s+<<<\s*['\"]?[^\s:'\"]+:)([^\s'\"]+)",)),
    Program("wpa_passphrase", patterns=(rf"(\s+\S+\s+)({_WORD})",)),
    Program("sqlplus|sqlldr|expdp|impdp", patterns=(r"(\s[\w.]+/)([^\s@'\"]+)",)),
)  # fmt: skip
_NAMES = "|".join(f"(?:{program.names})" for program in PROGRAMS)
_CALL = re.compile(rf"(?<![\w.:@=-])(?P<program>{_NAMES})(?=[ \t])(?P<rest>[^|;&\n]{{0,600}})")
_PROGRAM = re.compile(rf"(?:{_NAMES})\Z")
SUSPECT = (
    r"|curl|wget|mysql|mariadb|redis|valkey|ldap|mongo|login|zip|7z|rar|snmp|freerdp|swift|rabbitmqctl|sqlplus"
    r"| -[puUPaAwkKXc]|-creds"
)


def mask_options(text: str) -> str:
    """Mask secrets in the options of programs that a text names.

    >>> mask_options("nice mysql -u root -phunter2 nova; ps -p 1; curl -u me:hunter2 h")
    'nice mysql -u root -p*** nova; ps -p 1; curl -u me:*** h'
    """
    return _CALL.sub(_call, text)


def is_program(word: str) -> bool:
    """True if a word of a command line is the name or path of a program that has options of its own for secrets."""
    return _PROGRAM.match(word.rpartition("/")[2]) is not None


def mask_argument(program: str, before: Sequence[str], argument: str) -> str:
    """Mask an argument of a program; `before` are those that stand before it.

    >>> mask_argument("curl", ("-u",), "me:hunter2"), mask_argument("mkdir", ("-p",), "/tmp/x")
    ('me:***', '/tmp/x')
    """
    if not program or (re.search(r"\s", argument) and "'" in argument and '"' in argument):
        return argument
    ahead = " ".join(each for each in before if each)
    quote = "" if re.fullmatch(r"[^\s'\"]+", argument) else "'" if "'" not in argument else '"'
    quoted = f"{quote}{argument}{quote}"
    line = f" {ahead} {quoted}"
    for kind in _kinds(program):
        masked = _masked(kind, line)
        if masked != line and masked.startswith(f" {ahead} "):
            shown = masked[len(ahead) + 2 :]
            return shown[1:-1] if shown[:1] in "'\"" and shown[:1] == shown[-1:] else shown
    return argument


@lru_cache(maxsize=256)
def _kinds(program: str) -> tuple[Program, ...]:
    return tuple(kind for kind in PROGRAMS if re.fullmatch(kind.names, program))


@lru_cache(maxsize=64)
def _patterns(kind: Program) -> tuple[re.Pattern[str], ...]:
    made = list(kind.patterns)
    begin = rf"['\"]?[^\s'\"{kind.after}]*{re.escape(kind.after)}(?!//)" if kind.after else ""
    value = r"[^\s'\"]+" if kind.after else _WORD
    if kind.next:
        options = "|".join(map(re.escape, kind.next))
        made.append(rf"(\s(?:{options})[ \t]+{begin}){_BY_NAME}((?!-){value})")
    if kind.glued:
        options = "|".join(map(re.escape, kind.glued))
        made.append(rf"(\s(?:{options}){begin}){_BY_NAME}((?!-){value})")
    return tuple(map(re.compile, made))


def _masked(kind: Program, arguments: str) -> str:
    if kind.needs and not re.search(rf"\s{kind.needs}\s", arguments):
        return arguments
    for pattern in _patterns(kind):
        arguments = pattern.sub(_hide, arguments)
    return arguments


def _hide(match: re.Match[str]) -> str:
    return match[0] if re.match(r"['\"]?(?:\$|\*{3})", match[2]) else f"{match[1]}{MASK}"


def _call(match: re.Match[str]) -> str:
    rest = mask_options(match["rest"])  # another program may follow: nice, sshpass, env
    for kind in _kinds(match["program"]):
        rest = _masked(kind, rest)
    return f"{match['program']}{rest}"
