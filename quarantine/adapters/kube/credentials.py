"""What of a kubeconfig, or of a pod's service account, is a secret: to be kept out of whatever leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from quarantine.adapters.kube.config import ACCOUNT, HOME_CONFIG

_SECRET = ("token", "password", "client-key-data")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secrets, and the files that hold further ones."""

    values: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def of(kubeconfig: Path | None, environ: Mapping[str, str] = os.environ) -> Credentials:
    """Of all users in the kubeconfigs that may be used. What cannot be read is told by whoever connects with it."""
    named = [str(kubeconfig)] if kubeconfig is not None else environ.get("KUBECONFIG", "").split(os.pathsep)
    paths = [Path(one).expanduser() for one in named if one] or [HOME_CONFIG.expanduser()]
    users = [user for path in paths for user in _entries(path, "user")]
    servers = [str(cluster.get("server")) for path in paths for cluster in _entries(path, "cluster")]
    values = [str(user[name]) for user in users for name in _SECRET if user.get(name)]
    values += [password for server in servers if (password := _password(server))]
    for user in users:
        values += _nested(user.get("auth-provider")) + _nested(user.get("exec"))
    token_files = [Path(str(user["tokenFile"])) for user in users if user.get("tokenFile")]
    return Credentials(tuple(values), (*token_files, ACCOUNT / "token"))


def _password(url: str) -> str:
    """In a URL, as it stands there."""
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _entries(path: Path, kind: str) -> Iterator[Mapping[str, object]]:
    """The kubeconfig's users or clusters."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return
    entries = document.get(f"{kind}s") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        one = entry.get(kind) if isinstance(entry, dict) else None
        if isinstance(one, dict):
            yield one


def _nested(helper: object) -> list[str]:
    """What a plug-in is given: its configuration's tokens, and its environment, which may hold anything."""
    if not isinstance(helper, dict):
        return []
    given = helper.get("config")
    found = [str(value) for name, value in given.items() if "token" in str(name)] if isinstance(given, dict) else []
    variables = helper.get("env")
    for one in variables if isinstance(variables, list) else ():
        name, value = (str(one.get("name")), one.get("value")) if isinstance(one, dict) else ("", None)
        if value and name.lower().endswith(("token", "password", "secret", "key")):
            found.append(str(value))
    return found
