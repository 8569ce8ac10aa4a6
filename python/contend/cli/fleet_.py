"""`contend fleet`: the machines that run a scenario with `hosts`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from contend.cli.common import print_answer
from contend.errors import BadInput, ContendError
from contend.files import text_named
from contend.text.safe import plain

MOST_INVITATION = 1 << 18  # bytes of what a host joins a fleet with


@click.group("fleet", short_help="Several machines for one scenario.")
def command() -> None:
    """Have several machines run one scenario, each for itself, with the results in one run directory here.

    `contend run SCENARIO --hosts a,b,c` brings its machines up by SSH and takes them down again; a fleet that is started
    here stays until it is stopped. Needs `pip install 'contend[fleet]'`, here and on every machine.

    \b
    Examples:
      contend fleet start db1 db2 db3
      contend run noisy-neighbour --hosts db1,db2,db3
      contend fleet status
      contend fleet stop
      contend fleet start --by-hand one two --address 10.0.0.1     (by files that cloud-init may bring)
    """


def way_options(function: click.decorators.FC) -> click.decorators.FC:
    """Add the options on how hosts are reached."""
    for option in (
        click.option(
            "--address",
            default="",
            metavar="ADDRESS",
            help="This machine's address as hosts reach it (default: the one that SSH came from).",
        ),
        click.option(
            "--ssh-config",
            default="",
            metavar="FILE",
            help="OpenSSH configuration to use (default: ~/.ssh/config).",
        ),
        click.option(
            "--contend",
            "there",
            default="contend",
            show_default=True,
            metavar="COMMAND",
            help="What starts contend on a host.",
        ),
    ):
        function = option(function)
    return function


def chosen(hosts: tuple[str, ...], file: Path | None) -> tuple[str, ...]:
    """Read the hosts given as words, each possibly several with commas, and those of a file."""
    from contend.fleet.names import check_hosts, of_file

    words = [name.strip() for word in hosts for name in word.split(",") if name.strip()]
    return check_hosts((*words, *(of_file(file) if file is not None else ())))


@command.command("start")
@click.argument("hosts", nargs=-1)
@click.option(
    "--hosts-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hosts, one a line; # begins a remark.",
)
@click.option("--by-hand", is_flag=True, help="Start no worker: make the file with which each machine joins.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where workers connect to (default: a free one)."
)
@click.option(
    "--lost",
    default="2m",
    show_default=True,
    metavar="TIME",
    help="After this alone a worker ends by itself.",
)
@click.option(
    "--listen",
    default="",
    metavar="ADDRESS",
    help="Where the scheduler listens here, and nowhere else (default: --address, or where SSH came from).",
)
@way_options
def start(
    hosts: tuple[str, ...],
    hosts_file: Path | None,
    by_hand: bool,
    port: int,
    lost: str,
    listen: str,
    address: str,
    ssh_config: str,
    there: str,
) -> int:
    """Bring HOSTS up: a worker on each, started by SSH, and a scheduler here, with TLS between them.

    A host is a name that ssh knows, like db1 or root@10.0.0.7. Its host key must be known, and the same version of contend
    installed. All hosts are looked at first; when one cannot join, nothing is started.
    """
    import asyncio

    from contend.fleet import up
    from contend.fleet.needs import need
    from contend.fleet.ssh import Problem, Way
    from contend.units import parse_duration_ns

    names = chosen(hosts, hosts_file)
    if not names:
        raise BadInput("no host was named", hint="contend fleet start db1 db2, or --hosts-file FILE")
    need()
    up.check_address(address)
    way = Way(there, ssh_config)
    if not by_hand:
        asyncio.run(up.look_at(names, way))
    elif not address:
        raise BadInput("--by-hand needs --address", hint="the address of this machine that the others reach")
    fleet = up.make(
        names,
        way,
        keep=True,
        by_hand=by_hand,
        port=port,
        listen=up.addresses(names, way, address, listen),
        lost_s=parse_duration_ns(lost) / 1e9,
    )
    if by_hand:
        for name in names:
            file, cloud = up.write_joins(fleet, name, address)
            print(
                f"{name}: contend fleet join {file.name}   with the file {file}\n{'':<4}or as user data: {cloud}"
            )
        print("these files hold keys: who has one is a member of the fleet")
        return 0
    answers = asyncio.run(up.bring(fleet, names, address))
    failed = [
        Problem(h, why.message, why.hint) for h, why in answers.items() if isinstance(why, ContendError)
    ]
    if failed:
        up.stop(fleet)
        up.complain(failed, len(names))
    print(f"{fleet.id}: {len(names)} hosts")
    return 0


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def status(as_json: bool) -> int:
    """Show the fleets of this user, and which of their hosts are there."""
    from contend.fleet import up
    from contend.fleet.needs import need

    need()
    fleets = up.status()
    if as_json:
        up_now = sum(fleet.up for fleet in fleets)
        headline = f"{up_now} of {len(fleets)} fleets are up" if fleets else "no fleet is up"
        print_answer(headline, up.Fleets(tuple(fleets)))
        return 0
    if not fleets:
        print("no fleet is up")
    for fleet in fleets:
        state = "up" if fleet.up else "its scheduler does not answer: contend fleet stop"
        print(f"{fleet.id}: {state}")
        for host, worker in fleet.hosts.items():
            print(f"  {host:<24} {worker or 'not there'}")
    return 0


@command.command("stop")
@click.argument("fleets", nargs=-1)
@click.option("--purge", is_flag=True, help="Also remove rows on hosts that no run directory here has yet.")
def stop(fleets: tuple[str, ...], purge: bool) -> int:
    """End FLEETS (default: all of this user): every host's worker, and all that its runs left there."""
    from contend.fleet import up
    from contend.fleet.needs import need

    need()
    known = {fleet.id: fleet for fleet in up.every()}
    if unknown := [name for name in fleets if name not in known]:
        raise BadInput(f"no fleet is called '{unknown[0]}'", hint="contend fleet status")
    failed: dict[str, str] = {}
    for name in fleets or tuple(known):
        failed |= up.stop(known[name], purge=purge)
        print(f"stopped {name}")
    if not known:
        print("no fleet is up")
    if failed:
        (host, why), *others = failed.items()
        error = ContendError(
            f"{host} is not cleaned up: {why}", hint="once it is reached again: contend fleet stop"
        )
        for other, reason in others:
            error.add_note(f"nor {other}: {reason}")
        raise error
    return 0


@command.command("join")
@click.argument("file", required=False)
@click.option("--background", is_flag=True, help="Return once connected, and print what was started.")
@click.option("--check", is_flag=True, help="Only say what this machine has, as JSON.")
def join(file: str | None, background: bool, check: bool) -> int:
    """Be a host of a fleet, with the FILE (- is stdin) that `contend fleet start` made. It ends when it is told to leave."""
    import asyncio

    from contend.fleet import join as joining
    from contend.fleet.needs import ON_HOSTS, need

    if check:
        print(json.dumps(joining.about()), file=plain(sys.stdout))
        return 0
    if file is None:
        raise BadInput("no file was named", hint="contend fleet start --by-hand makes one for each machine")
    need(ON_HOSTS)
    folder = joining.take(_invitation(file))
    if background:
        print(json.dumps(joining.start(folder)), file=plain(sys.stdout))
        return 0
    asyncio.run(joining.serve(folder))
    return 0


def _invitation(file: str) -> str:
    """Read what `contend fleet start` made for a host; `-` is stdin. Raises BadInput."""
    hint = "the file that contend fleet start made"
    if file != "-":
        return text_named(Path(file), most=MOST_INVITATION, hint=hint)
    try:
        data = sys.stdin.buffer.read(MOST_INVITATION + 1)
        if len(data) > MOST_INVITATION:
            raise BadInput(f"stdin gives more than {MOST_INVITATION >> 10} KiB", hint=hint)
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read stdin: {error}", hint=hint) from error


@command.command("leave")
@click.argument("fleet")
@click.option("--purge", is_flag=True, help="Also remove rows that the starting machine does not have yet.")
def leave(fleet: str, purge: bool) -> int:
    """End this machine's worker of FLEET, and all that its runs left here."""
    from contend.fleet.join import quit_fleet

    answer = quit_fleet(fleet, purge=purge)
    print(json.dumps(answer), file=plain(sys.stdout))
    return 1 if answer["failed"] else 0
