"""A secret in every setting that may hold one, and far sides that say all that they were sent right back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import yaml

from quarantine.sandbox.desks.served import Asked, Desk, Said
from quarantine.settings import Settings, load
from quarantine.settings.leaves import LEAVES

ROUTING_KEY = "hush0pager0key000000000000000042"
SLACK_TOKEN = "xoxb-hush-bot-4242"
# By setting; those that exclude one another are in two halves, and each installation has one.
SECRETS: Mapping[str, str] = {
    "prometheus.password": "hush-prometheus-password-1",
    "prometheus.bearer_token": "hush-prometheus-token-2",
    "slack.token": SLACK_TOKEN,
    "slack.app_token": "xapp-hush-app-4243",
    "slack.signing_secret": "hush-signing-secret-3",
    "pagerduty.routing_key": ROUTING_KEY,
    "alertmanager.password": "hush-alertmanager-password-4",
    "alertmanager.token": "hush-alertmanager-token-5",
    "grafana.token": "hush-grafana-token-6",
    "heartbeat.url": "hush-heartbeat-7",  # in its path
    "database_url": "hush-database-8",  # its password
}
FIRST = {"prometheus.password", "slack.app_token", "alertmanager.token"}
SECOND = {"prometheus.bearer_token", "slack.signing_secret", "alertmanager.password"}
HEADER, KUBE_TOKEN, KUBE_PASSWORD, CLIENT_KEY = (
    "hush-header-9",
    "hush-kube-10",
    "hush-kube-url-11",
    "aHVzaC1jbGllbnQta2V5",
)
PROXY = "hush-proxy-12"
OF_TARGETS = {
    "github": "ghp_hush0github0token000013",
    "jira": "hush-jira-token-14",
    "zendesk": "hush-zendesk-token-15",
    "webhook": "hush-webhook-secret-000000000016",
    "email": "hush-email-password-17",
}
USER = "robot@lab.example"
ALL = (*SECRETS.values(), HEADER, KUBE_TOKEN, KUBE_PASSWORD, CLIENT_KEY, PROXY, *OF_TARGETS.values())


def targets(url: str, mail_port: int = 1) -> dict[str, dict[str, object]]:
    """One of each kind that talks to somebody."""
    return {
        "github": {"kind": "github", "repository": "acme/repairs", "url": url, "token": OF_TARGETS["github"]},
        "jira": {"kind": "jira", "url": url, "project": "OPS", "user": USER, "token": OF_TARGETS["jira"]},
        "zendesk": {"kind": "zendesk", "url": url, "email": USER, "token": OF_TARGETS["zendesk"]},
        "webhook": {"kind": "webhook", "url": url, "secret": OF_TARGETS["webhook"]},
        "email": {
            "kind": "email",
            "host": "127.0.0.1",
            "port": mail_port,
            "security": "none",
            "username": "robot",
            "password": OF_TARGETS["email"],
            "sender": USER,
            "recipients": ["rma@acme.example"],
        },
    }


def environment(url: str, half: set[str], kubeconfig: Path) -> dict[str, str]:
    """The variables of an installation whose every dependency is at `url`."""
    base = url.rstrip("/")
    written = {
        "policies": str(kubeconfig.parent),  # there are none: reading the shipped ones takes seconds
        "prometheus.url": url,
        "prometheus.timeout": "3s",
        "prometheus.headers": json.dumps({"X-Api-Key": HEADER}),
        "kubernetes.kubeconfig": str(kubeconfig),
        "kubernetes.timeout": "3s",
        "slack.channel": "C0TEST",
        "slack.base_url": f"{base}/api/",
        "pagerduty.url": url,
        "alertmanager.urls": json.dumps([url]),
        "grafana.url": url,
        "door.listen": "127.0.0.1:1",
        "tickets.targets": json.dumps(targets(url)),
        "tickets.default": "github",
        "database_url": f"sqlite:///{kubeconfig.with_name('ledger.db')}",
        "heartbeat.url": f"{base}/ping/{SECRETS['heartbeat.url']}",
    }
    written |= {"prometheus.username": "robot"} if "prometheus.password" in half else {}
    written |= {"alertmanager.username": "robot"} if "alertmanager.password" in half else {}
    written |= {name: SECRETS[name] for name in SECRETS if name in half or name not in FIRST | SECOND | written.keys()}
    leaves = {leaf.name: leaf.variable for leaf in LEAVES}
    return {leaves[name]: value for name, value in written.items()}


def installation(url: str, half: set[str], folder: Path) -> Settings:
    """Its settings."""
    path = folder / "kubeconfig"
    write_kubeconfig(path, url)
    return load(None, {}, environment(url, half, path))


def write_kubeconfig(path: Path, url: str) -> None:
    """With a token and a password in the server's URL; its second user has a client key."""
    server = url.replace("://", f"://robot:{KUBE_PASSWORD}@", 1)
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "robot"}}],
                "clusters": [{"name": "lab", "cluster": {"server": server}}],
                "users": [
                    {"name": "robot", "user": {"token": KUBE_TOKEN}},
                    {"name": "other", "user": {"client-key-data": CLIENT_KEY}},
                ],
            }
        ),
        encoding="utf-8",
    )


def found_in(text: str) -> list[str]:
    """The planted secrets that are in a text, as they are, or as they go over the wire."""
    return [secret for secret, forms in _FORMS.items() if any(form in text for form in forms)]


def leaks(text: str) -> list[str]:
    """Where they are, with some of what is around them."""
    found = []
    for form in {form for forms in _FORMS.values() for form in forms}:
        at = text.find(form)
        found += [text[max(0, at - 300) : at + 60]] if at >= 0 else []
    return found


def _forms(secret: str) -> set[str]:
    users = ("robot", USER, f"{USER}/token")
    basic = {base64.b64encode(f"{user}:{secret}".encode()).decode() for user in users}
    return {secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode().rstrip("="), *basic}


_FORMS = {secret: _forms(secret) for secret in ALL}


class Elsewhere(Desk):
    """Another host. Nothing of ours may come here."""

    def answer(self, asked: Asked) -> Said:  # noqa: ARG002  (what comes is in `asked`)
        return Said(200, {})


class Mirror(Desk):
    """Answers with `status`, and in every field that some vendor tells an error in, with all that it was sent."""

    def __init__(self, status: int, leads_to: str = "") -> None:
        """`leads_to`: the host that a redirect leads to."""
        super().__init__()
        self.status, self.leads_to = status, leads_to
        self.heard: list[str] = []

    def answer(self, asked: Asked) -> Said:
        sent = dict(asked.headers)
        known = asked.headers.get("authorization", "").split()[1:]
        clear = [base64.b64decode(word + "==").decode("utf-8", "replace") for word in known if word.isalnum()]
        echo = f"{asked.method} {asked.target} {sent} {clear} {asked.content.decode('utf-8', 'replace')}"
        self.heard.append(echo)
        body = {
            "apiVersion": "v1",
            "kind": "Status",  # Kubernetes
            "status": "error",  # Prometheus
            "errorType": "bad_data",
            "error": "missing_scope" if asked.target.startswith("/api/") and "." in asked.target else echo,
            "message": echo,  # GitHub, Grafana, Kubernetes
            "ok": False,  # Slack
            "needed": echo,
            "response_metadata": {"messages": [echo]},
            "errorMessages": [echo],  # Jira
            "errors": {"summary": echo},
            "description": echo,  # Zendesk
            "details": {"base": [{"description": echo}]},
        }
        headers = {"Location": f"{self.leads_to}{asked.target}"} if self.leads_to else {}
        return Said(self.status, body, {"Content-Type": "application/json", "X-Said": "no", **headers})
