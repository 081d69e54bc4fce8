"""Where the API server is: kubeconfigs good and bad, and the service account. No message tells a secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import certifi
import pytest
import time_machine

from quarantine.adapters.kube import KubeCluster, KubeSettings, connect
from quarantine.adapters.kube.config import without_password
from quarantine.core.errors import ClusterUnavailable, UsageError
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.support import PREFIX, listed, write_kubeconfig

SECRET = "t0p-s3cret"


def to(kubeconfig: Path | None, context: str | None = None, **environ: str) -> KubeCluster:
    return connect(
        kubeconfig=kubeconfig,
        context=context,
        api_timeout=timedelta(seconds=5),
        prefix=PREFIX,
        user_agent="quarantine-test/1",
        settings=KubeSettings(watch=False),
        environ=environ,
    )


def refused(kubeconfig: Path | None, context: str | None = None, **environ: str) -> str:
    """The sentence of the refusal, which must be one, and tell no secret, not even in what it is chained to."""
    with pytest.raises(UsageError) as caught:
        to(kubeconfig, context, **environ)
    text = str(caught.value)
    told: BaseException | None = caught.value
    while told is not None:
        assert SECRET not in str(told)
        told = None if told.__suppress_context__ and told.__cause__ is None else told.__cause__ or told.__context__
    assert "\n" not in text
    assert text.endswith(".")
    return text


def config(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c2", "user": "u"}},
        ],
    } | changes


def write(path: Path, body: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(body))
    return path


def test_a_kubeconfig_that_is_asked_for_must_exist(tmp_path: Path) -> None:
    assert f"no kubeconfig at {tmp_path / 'absent'} (as asked for)" in refused(tmp_path / "absent")


def test_one_that_the_environment_names_must_exist(tmp_path: Path) -> None:
    assert "as KUBECONFIG says" in refused(None, KUBECONFIG=f"{tmp_path / 'absent'}:{tmp_path / 'absent too'}")


def test_without_any_the_home_is_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "~/.kube/config (where kubectl keeps it), and no pod's service account" in refused(None)

    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube/config", "http://127.0.0.1:1")
    assert to(None).url == "http://127.0.0.1:1"


def test_kubeconfigs_of_the_environment_are_merged(tmp_path: Path) -> None:
    first = write(tmp_path / "first", config())
    second = write(
        tmp_path / "second",
        {"clusters": [{"name": "c2", "cluster": {"server": "https://two.example"}}], "contexts": [], "users": []},
    )

    assert to(None, "two", KUBECONFIG=f"{first}:{tmp_path / 'absent'}:{second}").url == "https://two.example"


def test_a_broken_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(f"apiVersion: v1\nusers:\n- user: {{token: {SECRET}\n  x: ]\n")

    assert f"{path}:4 is no valid YAML" in refused(path)


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    assert "it has no context three" in refused(write(tmp_path / "k", config()), "three")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (config(contexts=[{"name": "one", "context": {"user": "u"}}]), "expected key cluster"),
        (config(contexts=[{"name": "one", "context": {"cluster": "x", "user": "u"}}]), "object with name x"),
        (config(clusters=[{"name": "c", "cluster": {}}]), "no http or https server"),
        (config(clusters=[{"name": "c", "cluster": {"server": "ftp://x"}}]), "no http or https server"),
        (config(clusters=[{"name": "c", "cluster": {"server": "api.example"}}]), "no http or https server"),
        (config(clusters=[{"name": "c", "cluster": None}]), "expected key cluster"),
        (config(clusters={"name": SECRET}), "form"),
        (config(users=[{"user": {"token": SECRET}}]), "cannot be used"),
        (config(users=[{"name": "u", "user": {"token": f"{SECRET}\n"}}]), "line break"),
        (config(users=[{"name": "u", "user": {"token": f"{SECRET}é"}}]), "no HTTP header"),
        ({k: v for k, v in config().items() if k != "current-context"}, "expected key current-context"),
        (
            config(
                clusters=[{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "/absent/ca.crt"}}]
            ),
            "/absent/ca.crt",
        ),
        (
            config(clusters=[{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "!"}}]),
            "certificate or key for https://x cannot be read",
        ),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(tmp_path: Path, body: dict[str, Any], words: str) -> None:
    assert words in refused(write(tmp_path / "k", body))


@pytest.mark.parametrize("text", ["", "- 1\n", "3\n", "text\n", "\x00", "{}\n", "users: 3\n"])
def test_what_is_no_kubeconfig_at_all(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)

    assert str(path) in refused(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"\xff\xfe\x00")

    assert str(path) in refused(path)


def test_a_kubeconfig_is_read_and_left_alone(tmp_path: Path, scripted: Scripted) -> None:
    scripted.script = lambda exchange: exchange.answer(listed())
    path = write_kubeconfig(tmp_path / "k", scripted.url)
    before = path.read_bytes()

    cluster = to(path)
    assert dict(cluster.nodes()) == {}
    cluster.close()

    assert path.read_bytes() == before
    assert not cluster.in_cluster
    assert scripted.seen[0].headers["authorization"] == "Bearer s3cret-token"


def test_a_password_in_the_url_is_not_kept_while_the_token_is_looked_after(tmp_path: Path, scripted: Scripted) -> None:
    """For each request the client sets the URL anew, as the kubeconfig has it, while another thread's may just fail."""
    given = scripted.url.replace("//", f"//admin:{SECRET}@")
    cluster = to(write_kubeconfig(tmp_path / "k", given))
    configuration = cluster.inquiry.transport.client.configuration
    configuration.host = given
    assert configuration.host == scripted.url
    assert configuration.get_api_key_with_prefix("BearerToken"), "which looks after it"
    assert configuration.host == scripted.url
    cluster.close()


def test_a_password_in_the_url_is_not_told(tmp_path: Path, scripted: Scripted) -> None:
    scripted.script = lambda exchange: exchange.answer(b"", 503)
    cluster = to(write_kubeconfig(tmp_path / "k", scripted.url.replace("//", f"//admin:{SECRET}@")))

    with pytest.raises(ClusterUnavailable) as caught:
        cluster.nodes()
    cluster.close()

    assert scripted.url in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in cluster.url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@host:6443/path", "https://host:6443/path"),
        ("https://u:p%40q@host", "https://host"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
    ],
)
def test_how_a_url_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


class TestInAPod:
    POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def account(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A service account's files."""
        (tmp_path / "token").write_text(SECRET)
        (tmp_path / "ca.crt").write_bytes(Path(certifi.where()).read_bytes())
        monkeypatch.setattr("quarantine.adapters.kube.config.ACCOUNT", tmp_path)
        return tmp_path

    def test_its_service_account_is_used(self) -> None:
        cluster = to(None, **self.POD)

        assert cluster.in_cluster
        assert cluster.url == "https://[fd00::1]:443"
        assert cluster._api.transport.client.configuration.api_key == {"BearerToken": f"bearer {SECRET}"}

    def test_a_new_token_is_read_once_the_old_is_a_minute_old(self, account: Path) -> None:
        with time_machine.travel("2026-11-29T12:00:00Z", tick=False) as time:
            configuration = to(None, **self.POD)._api.transport.client.configuration
            (account / "token").write_text("rotated")
            assert configuration.get_api_key_with_prefix("BearerToken") == f"bearer {SECRET}"
            time.shift(61)
            assert configuration.get_api_key_with_prefix("BearerToken") == "bearer rotated"

    def test_a_kubeconfig_that_is_asked_for_wins(self, account: Path) -> None:
        path = write_kubeconfig(account / "k", "http://127.0.0.1:1")

        for cluster in (to(path, **self.POD), to(None, KUBECONFIG=str(path), **self.POD)):
            assert not cluster.in_cluster
            assert cluster.url == "http://127.0.0.1:1"

    def test_a_context_is_a_kubeconfigs(self, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(account))

        assert "no kubeconfig" in refused(None, "here", **self.POD)

    @pytest.mark.parametrize("missing", ["ca.crt", "token"])
    def test_an_empty_file_is_told(self, account: Path, missing: str) -> None:
        (account / missing).write_text("")

        assert f"service account in {account} cannot be used" in refused(None, **self.POD)

    def test_a_token_that_has_gone_is_told_when_it_is_needed(self, account: Path) -> None:
        with time_machine.travel("2026-11-29T12:00:00Z", tick=False) as time:
            cluster = to(None, **self.POD)
            (account / "token").unlink()
            time.shift(61)
            with pytest.raises(ClusterUnavailable, match=f"{account / 'token'} cannot be read"):
                cluster.nodes()
        cluster.close()
