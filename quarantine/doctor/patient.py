"""What is examined: the settings, and what they lead to, each connected at the first check that needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from quarantine.adapters.kube import KubeCluster, KubeSettings
from quarantine.adapters.kube import connect as connect_kube
from quarantine.adapters.policyfiles.loader import CheckResult, check_paths
from quarantine.adapters.prometheus import PrometheusMetrics
from quarantine.adapters.prometheus.status import PrometheusStatus
from quarantine.app import AGENT
from quarantine.core.errors import QuarantineError
from quarantine.core.model import Mode, Node
from quarantine.core.policy import Rules
from quarantine.doctor.finding import Skipped
from quarantine.doctor.once import Once
from quarantine.settings import Settings


class Patient:
    """To be closed, which breaks off what is still being asked. Nothing of it writes anywhere."""

    def __init__(self, settings: Settings, now: Callable[[], datetime]) -> None:
        """`now`: aware, UTC."""
        self.settings = settings
        self.now = now
        self._stack = ExitStack()
        self.policies: Callable[[], CheckResult] = Once(self._policies)
        self.cluster: Callable[[], KubeCluster] = Once(self._cluster)
        self.kubernetes: Callable[[], tuple[str, timedelta | None]] = Once(self._kubernetes)
        self.nodes: Callable[[], Mapping[str, Node]] = Once(lambda: self.cluster().nodes())
        self.metrics: Callable[[], PrometheusMetrics] = Once(self._metrics)
        self.prometheus: Callable[[], PrometheusStatus] = Once(self._prometheus)

    @property
    def enforces(self) -> bool:
        """Whether the controller would act."""
        return self.settings.mode is Mode.ENFORCE

    @property
    def elected(self) -> bool:
        """Whether a Lease says who acts. Raises UsageError where it depends on a kubeconfig that cannot be used."""
        wanted = self.settings.leader.elect
        return self.cluster().in_cluster if wanted is None else wanted

    def rules(self) -> Rules:
        """The rules as the files have them now. Raises Skipped where there is no sound Fleet."""
        rules = self.policies().rules
        if rules is None:
            raise Skipped("there are no sound policies to go by")
        return rules

    def known_rules(self) -> Rules | None:
        """The same; None where there are none."""
        return self.policies().rules

    def answering_cluster(self) -> KubeCluster:
        """The Kubernetes API, which answers. Raises Skipped where it does not: another check says so."""
        try:
            self.kubernetes()
            return self.cluster()
        except QuarantineError:
            raise Skipped("the Kubernetes API did not answer") from None

    def answering_metrics(self) -> PrometheusMetrics:
        """Prometheus, which answers. Raises Skipped where it does not: another check says so."""
        try:
            self.prometheus()
            return self.metrics()
        except QuarantineError:
            raise Skipped("Prometheus did not answer") from None

    def known_nodes(self) -> Mapping[str, Node] | None:
        """The cluster's nodes; None where they cannot be listed: another check says so."""
        try:
            return self.nodes()
        except QuarantineError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _policies(self) -> CheckResult:
        return check_paths(self.settings.policies, prefix=self.settings.kubernetes.prefix)

    def _cluster(self) -> KubeCluster:
        kube = self.settings.kubernetes
        made = connect_kube(
            kubeconfig=kube.kubeconfig,
            context=kube.context,
            api_timeout=kube.timeout,
            prefix=kube.prefix,
            user_agent=AGENT,
            settings=KubeSettings(watch=False),
            now=self.now,
        )
        self._stack.callback(made.close)
        return made

    def _kubernetes(self) -> tuple[str, timedelta | None]:
        return self.cluster().inquiry.version()

    def _metrics(self) -> PrometheusMetrics:
        made = PrometheusMetrics(self.settings.prometheus.connection())
        self._stack.callback(made.close)
        return made

    def _prometheus(self) -> PrometheusStatus:
        self.metrics()  # which sees to it that the settings can be used
        made = PrometheusStatus(self.settings.prometheus.connection(), self.now)
        self._stack.callback(made.close)
        made.clock()  # whether it answers at all
        return made
