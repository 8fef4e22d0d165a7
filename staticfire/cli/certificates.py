"""`staticfire certificates`: a CA, a server, a client, for tests of TLS."""

import click

from staticfire.cli.family import FamilyCommand, json_flag
from staticfire.cli.listing import print_json
from staticfire.cli.options import Whole

DAYS = 365
DAYS_MAX = 36_500
FLAWS = ("expired", "not-yet-valid", "wrong-name", "other-ca", "wrong-key")
PASSWORD = "changeit"


@click.command(cls=FamilyCommand)
@click.option("--to", "folder", required=True, metavar="DIR", help="The folder, which is created if it is missing.")
@click.option("--name", "names", multiple=True, help="A further host name or address of the server; may be repeated.")
@click.option("--days", type=Whole(1, DAYS_MAX), default=DAYS, show_default=True, help="How long they are valid.")
@click.option("--password", default=PASSWORD, show_default=True, help="The password of the stores for Java.")
@click.option(
    "--flaw", type=click.Choice(FLAWS), default=None,
    help="Make the server's certificate unusable in this way, to see what clients do.",
)  # fmt: skip
@json_flag
def certificates(
    folder: str, names: tuple[str, ...], days: int, password: str, flaw: str | None, as_json: bool
) -> None:
    """Make certificates for TLS: a CA, a server with the names and addresses of this machine, a client.

    \b
        staticfire certificates --to certs
        staticfire up -c certs/tls.properties
        staticfire topics --tls-trust certs/ca.pem
        java -Dtls.enable=true -Dtls.config.file=certs/tls.properties ...

    The files are PEM; trust.p12, server.p12 and client.p12 contain the same for Java's key stores. If the folder has a
    CA already, it signs new certificates for the server and the client: a running cluster uses them for the next
    connection.
    """
    from staticfire.runtime.live import live_machine
    from staticfire.runtime.tls.folder import CertificateWish, fill
    from staticfire.runtime.tls.settings import check_names

    check_names(names, "--name ")
    identity = live_machine().identity
    own = [identity.host_name, identity.host_ip]
    made = fill(folder, CertificateWish([*own, *names], days, password, flaw or ""))
    if as_json:
        print_json({"directory": folder, "files": made.files, "names": made.names, "isCaNew": made.is_ca_new})
        return
    click.echo(f"wrote {len(made.files)} files to {folder}: {', '.join(made.files)}")
    click.echo(f"the server's names: {', '.join(made.names)}")
    if not made.is_ca_new:
        click.echo("the CA is the one that was there; a running cluster uses the new certificate from now on")
