"""Certificates: a private authority, a client's own, and each way in which they do not fit."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.errors import UsageError
from quarantine.core.model import Answer, Failed, FailureKind, Samples
from tests.adapters.prometheus.standin import Standin, vector

AT = datetime.fromtimestamp(1_700_000_000, UTC)


class Authority:
    """A private certificate authority that signs what it is asked to."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / "ca.pem"
        self.key = home / "ca.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign",
                 "-keyout", self.key, "-out", self.file)  # fmt: skip

    def sign(self, name: str, *, extension: str) -> tuple[Path, Path]:
        request, key, certificate = (self.home / f"{name}.{kind}" for kind in ("csr", "key", "pem"))
        extensions = self.home / f"{name}.ext"
        extensions.write_text(f"{extension}\nauthorityKeyIdentifier=keyid\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", key, "-out", request)  # fmt: skip
        _openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial",
                 "-extfile", extensions, "-out", certificate)  # fmt: skip
        return certificate, key


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    return context(*authority.sign("server", extension="subjectAltName=IP:127.0.0.1"))


@pytest.fixture(autouse=True)
def _no_authority_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made


def ask(tls: ssl.SSLContext | None, only: bytes | None = None, **settings: Any) -> Answer:
    with Standin(lambda peer, _: peer.reply(vector(({}, "1"))), tls, only=only) as standin:
        url = standin.url.replace("http://", "https://")
        with PrometheusMetrics(PrometheusSettings(url, **settings)) as metrics:
            return metrics.query("up", at=AT, timeout=timedelta(seconds=10))


def unreachable(answer: Answer) -> str:
    assert isinstance(answer, Failed), answer
    assert answer.kind is FailureKind.UNREACHABLE
    return answer.detail


def test_a_private_authority_is_trusted_when_it_is_named(authority: Authority, server: ssl.SSLContext) -> None:
    assert isinstance(ask(server, ca_file=authority.file), Samples)


def test_and_not_otherwise(server: ssl.SSLContext) -> None:
    detail = unreachable(ask(server))
    assert "unable to get local issuer certificate" in detail
    assert "prometheus.ca_file" in detail


def test_another_hosts_certificate_is_not_accepted(authority: Authority) -> None:
    other = context(*authority.sign("other", extension="subjectAltName=DNS:prometheus.example"))
    assert "127.0.0.1" in unreachable(ask(other, ca_file=authority.file))


def test_verification_is_off_when_the_operator_says_so(server: ssl.SSLContext) -> None:
    assert isinstance(ask(server, verify=False), Samples)


def test_a_server_without_tls_is_told_apart() -> None:
    assert "over TLS" in unreachable(ask(None, b"HTTP/1.1 400 Bad Request\r\n\r\n"))


def test_a_client_shows_its_certificate(authority: Authority) -> None:
    strict = context(*authority.sign("strict", extension="subjectAltName=IP:127.0.0.1"))
    strict.verify_mode = ssl.CERT_REQUIRED
    strict.load_verify_locations(authority.file)
    certificate, key = authority.sign("client", extension="extendedKeyUsage=clientAuth")
    assert isinstance(ask(strict, ca_file=authority.file, cert_file=certificate, key_file=key), Samples)
    both = authority.home / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    assert isinstance(ask(strict, ca_file=authority.file, cert_file=both), Samples)
    assert unreachable(ask(strict, ca_file=authority.file))


def test_files_that_do_not_fit_are_refused_at_the_start(authority: Authority) -> None:
    certificate, key = authority.sign("one", extension="extendedKeyUsage=clientAuth")
    _, others = authority.sign("two", extension="extendedKeyUsage=clientAuth")
    locked = authority.home / "locked.key"
    _openssl("ec", "-in", key, "-aes128", "-passout", "pass:secret", "-out", locked)
    text = authority.home / "text.pem"
    text.write_text("no certificate\n")
    unfit: list[dict[str, Any]] = [
        {"cert_file": certificate, "key_file": others},
        {"cert_file": certificate, "key_file": locked},
        {"cert_file": text},
        {"ca_file": text},
    ]
    for settings in unfit:
        with pytest.raises(UsageError, match="cannot be used as"):
            PrometheusMetrics(PrometheusSettings("https://127.0.0.1:9", **settings))
