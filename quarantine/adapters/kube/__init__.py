"""The Kubernetes API: nodes from a watch-fed cache, conditional writes, Events, pods, evictions and Jobs.

Implements `ports.Cluster`, and `ports.Procedures` for those that are Jobs (`KubeCluster.jobs`).
"""

from quarantine.adapters.kube.cluster import DEFAULTS, KubeCluster, KubeSettings
from quarantine.adapters.kube.config import connect
from quarantine.adapters.kube.watcher import Pace

__all__ = ["DEFAULTS", "KubeCluster", "KubeSettings", "Pace", "connect"]
