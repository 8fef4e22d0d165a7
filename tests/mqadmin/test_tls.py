"""TLS as RocketMQ's own client uses it: Tls.java says which of Apache's tests it follows."""

import os
import subprocess
from pathlib import Path

import pytest

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.java_properties import read_properties
from staticfire.runtime.tls.folder import CertificateWish, fill
from tests.mqadmin.java import java

pytestmark = [pytest.mark.row("G6"), pytest.mark.foreign]

PATIENCE_S = 120
SAID_BY_JAVA = "failed RemotingSendRequestException send request to <"


def played(folder: Path, cluster: Cluster, topic: str, producer: str, consumer: str, *properties: str) -> str:
    """Return what the Java program prints at its end."""
    command = java("Tls.java", cluster.namesrv, topic, producer, consumer, folder=str(folder), namesrv=cluster.namesrv)
    command[1:1] = [f"-Duser.home={folder}", *(f"-D{each}" for each in properties)]
    reported = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    return reported.stdout.splitlines()[-1] if reported.stdout else reported.stderr[-2_000:]


@pytest.mark.parametrize(("producer", "consumer"), [("tls", "tls"), ("plain", "tls"), ("tls", "plain")])
def test_what_tls_it_tls_mix_it_and_tls_mix_2_it_do(producer: str, consumer: str, tmp_path: Path) -> None:
    with Cluster() as cluster:
        assert played(tmp_path, cluster, "orders", producer, consumer) == "consumed 16"


def test_certificates_are_verified_by_both_sides(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    fill(str(certs), CertificateWish([], 30, "changeit"))
    settings = read_properties((certs / "tls.properties").read_text())
    config = f"tls.config.file={certs / 'tls.properties'}"
    settings |= {"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require"}
    with Cluster(settings=settings) as cluster:
        assert played(tmp_path, cluster, "orders", "tls", "tls", "tls.enable=true", config) == "consumed 16"
        assert played(tmp_path, cluster, "orders", "tls", "tls", "tls.enable=true").startswith(SAID_BY_JAVA)
        assert played(tmp_path, cluster, "orders", "plain", "plain").startswith(SAID_BY_JAVA)


def test_a_client_with_tls_on_a_port_without_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster(settings={"tls.server.mode": "disabled"}) as cluster:
        assert played(tmp_path, cluster, "orders", "tls", "tls").startswith(SAID_BY_JAVA)
    assert "TLS on a port where tls.server.mode=disabled" in capfd.readouterr().err


def test_keytool_reads_the_stores(tmp_path: Path) -> None:
    fill(str(tmp_path), CertificateWish([], 30, "changeit"))
    for store, kind in (("trust.p12", "trustedCertEntry"), ("server.p12", "PrivateKeyEntry")):
        command = ["keytool", "-list", "-keystore", str(tmp_path / store), "-storepass", "changeit"]
        reported = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        )
        assert kind in reported.stdout
