"""How the lists of the served kinds merge: what the Go types say in their `patchMergeKey` and `listType` tags.

The table is by field name. In the kinds that are served, a name means the same wherever it stands; what looks like a
field inside labels, annotations and data is always text, and text never merges.
"""

from __future__ import annotations

from typing import Final

# Strategic merge patch: lists of objects that merge by this key. All others are atomic: spec.taints above all.
MERGE_KEYS: Final = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
# Lists of plain values that merge as sets.
MERGE_SETS: Final = frozenset({"finalizers", "podCIDRs"})
# Objects that a strategic patch replaces as a whole.
REPLACED_MAPS: Final = frozenset({"selector"})

# Field management: lists whose items are owned one by one, and their keys.
OWNED_KEYS: Final = MERGE_KEYS | {
    "ports": "containerPort,protocol",
    "topologySpreadConstraints": "topologyKey,whenUnsatisfiable",
}
# Objects that are owned as a whole.
ATOMIC_MAPS: Final = frozenset(
    {
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "nodeSelectorTerms",
        "resourceFieldRef",
        "secretRef",
        "selector",
    }
)
