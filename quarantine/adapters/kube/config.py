"""Where the API server is and who we are: a pod's service account, or a kubeconfig."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from quarantine.adapters.kube.api import ApiServer
from quarantine.adapters.kube.cluster import DEFAULTS, KubeCluster, KubeSettings
from quarantine.adapters.kube.transport import Transport
from quarantine.core.errors import UsageError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

HOME_CONFIG = Path("~/.kube/config")
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def utc_now() -> datetime:
    """The wall clock, for callers that have no Clock at hand."""
    return datetime.now(UTC)  # noqa: TID251 - the outermost edge; the controller hands in its Clock


def own_namespace() -> str:
    """The pod's; `default` where this runs in none."""
    try:
        return (ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


def connect(
    *,
    kubeconfig: Path | None,
    context: str | None,
    api_timeout: timedelta,
    prefix: str,
    user_agent: str,
    settings: KubeSettings = DEFAULTS,
    now: Callable[[], datetime] = utc_now,
    environ: Mapping[str, str] = os.environ,
) -> KubeCluster:
    """A cluster to talk to; nothing is sent yet. `api_timeout` bounds connecting and each wait for an answer.

    A kubeconfig or context that is asked for (argument or KUBECONFIG) wins; then the service account, where this
    runs in a pod; then ~/.kube/config. Raises UsageError when what is found cannot be used.
    """
    from kubernetes.client import ApiClient
    from urllib3 import Retry

    configuration = _configuration()
    in_cluster = not (kubeconfig or context or environ.get("KUBECONFIG")) and runs_in_pod(environ)
    if in_cluster:
        _use_service_account(configuration, environ)
    else:
        _use_kubeconfig(configuration, _find(kubeconfig, environ), context)
    _check_token(configuration)
    _check_certificates(configuration)
    # The cycle tries again under its own deadline. The library would wait out a Retry-After of any length.
    configuration.retries = Retry(0)
    configuration.keep_alive = True
    client = ApiClient(configuration)
    client.user_agent = user_agent
    api = ApiServer(
        Transport(client, str(configuration.host), api_timeout, settings.page), prefix, settings.annotations
    )
    return KubeCluster(api, now=now, settings=settings, in_cluster=in_cluster)


def runs_in_pod(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (ACCOUNT / "token").is_file()


def without_password(url: str) -> str:
    """The URL without its user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _configuration() -> Configuration:
    """One that never holds a name and password of a URL: the client sends none, and urllib3's errors quote all of it.

    For each request the client sets the URL anew, as the kubeconfig has it, so it is taken out as it is set.
    """
    from kubernetes.client import Configuration

    class Plain(Configuration):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, without_password(value) if name == "host" else value)

    return Plain()


def _use_service_account(configuration: Configuration, environ: Mapping[str, str]) -> None:
    from kubernetes.config import ConfigException
    from kubernetes.config.incluster_config import InClusterConfigLoader

    try:
        loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
            str(ACCOUNT / "token"), str(ACCOUNT / "ca.crt"), environ=environ
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise UsageError(
            f"The service account in {ACCOUNT} cannot be used ({error}); "
            "mount one (automountServiceAccountToken), or name a kubeconfig."
        ) from error


def _check_token(configuration: Configuration) -> None:
    """Refuse a token that no HTTP header can carry here, where it can be told without quoting it."""
    token = configuration.api_key.get("BearerToken") or ""
    if not (token.isascii() and token.isprintable()):
        raise UsageError(
            "The token for the Kubernetes API holds a line break or another character that no HTTP header may; "
            "correct it in the kubeconfig or the service account."
        )


def _check_certificates(configuration: Configuration) -> None:
    """Load them as the connection will: what is no certificate is told now, not as a failed handshake later."""
    try:
        if configuration.host.startswith("https:") and configuration.ssl_ca_cert:
            ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            # An empty password: the default would ask for one on the terminal.
            ssl.create_default_context().load_cert_chain(configuration.cert_file, configuration.key_file, password="")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"A certificate or key for {configuration.host} cannot be read ({error}); "
            "correct it in the kubeconfig or the service account."
        ) from error


def _find(kubeconfig: Path | None, environ: Mapping[str, str]) -> str:
    """The kubeconfig's path; several, as KUBECONFIG may name them, joined by colons."""
    if kubeconfig is not None:
        named, source = str(kubeconfig), "as asked for"
    elif environ.get("KUBECONFIG"):
        named, source = environ["KUBECONFIG"], "as KUBECONFIG says"
    else:
        named, source = str(HOME_CONFIG), "where kubectl keeps it"
    paths = [named] if kubeconfig else named.split(os.pathsep)
    if not any(Path(p).expanduser().is_file() for p in paths if p):
        raise UsageError(
            f"There is no kubeconfig at {named} ({source}), and no pod's service account; "
            "set kubernetes.kubeconfig, or KUBECONFIG."
        )
    return named


def _use_kubeconfig(configuration: Configuration, path: str, context: str | None) -> None:
    import yaml
    from kubernetes.config import ConfigException, load_kube_config

    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context, client_configuration=configuration, persist_config=False
        )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        # From None, here and below: these messages quote the file, and the file holds secrets.
        raise UsageError(f"The kubeconfig {where} is no valid YAML; correct it.") from None
    except ConfigException as error:
        raise UsageError(f"The kubeconfig {path} cannot be used: {_why(error, context)}; correct it.") from None
    except OSError as error:
        raise UsageError(f"The kubeconfig {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"The kubeconfig {path} cannot be used: it has not the form of one; correct it.") from None
    if urlsplit(configuration.host).scheme not in {"http", "https"} or not urlsplit(configuration.host).hostname:
        raise UsageError(f"The kubeconfig {path} names no http or https server for this context; correct it.")


def _why(error: Exception, context: str | None) -> str:
    text = str(error)
    if context and f"object with name {context} in" in text and "/contexts" in text:
        return f"it has no context {context}"
    # "Expected key server in kube-config/[...]": what follows "in" is the file's own content.
    return (
        text.split(" in ", 1)[0].replace("Invalid kube-config file. ", "").rstrip(".").replace("Expected", "expected")
    )
