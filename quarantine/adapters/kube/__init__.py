"""The Kubernetes API: nodes from a watch-fed cache, conditional writes, Events. Implements `ports.Cluster`."""

from quarantine.adapters.kube.cluster import DEFAULTS, KubeCluster, KubeSettings
from quarantine.adapters.kube.config import connect
from quarantine.adapters.kube.watcher import Pace

__all__ = ["DEFAULTS", "KubeCluster", "KubeSettings", "Pace", "connect"]
