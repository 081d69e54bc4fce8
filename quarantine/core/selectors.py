"""Selectors and literals of PromQL: nothing from outside breaks out of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from quarantine.core.model import Device, DeviceKind
from quarantine.core.readings import Reading
from quarantine.core.signal import Source

Labels = Mapping[str, str]
Narrow = tuple[str, ...] | None  # matchers that keep a selector to some devices; None: the whole fleet

_OF_GPU = (DeviceKind.GPU, DeviceKind.NVLINK)  # kinds whose names say which GPU
_GPU = "GPU-"
_UUID = re.compile(r"[0-9A-Fa-f]+(-[0-9A-Fa-f]+)+")


def select(reading: Reading, only: Narrow, metric: str | None = None, *, also: Iterable[str] = ()) -> str:
    """A metric with the fleet's and the source's matchers, kept to some devices or requiring names.

    `also`: matchers besides, as those of one model.
    """
    fixed = {**reading.matchers, **reading.source.match}
    matchers = [f"{k}={quote(v)}" for k, v in fixed.items()]
    matchers += only if only is not None else [f'{label}!=""' for label in required_labels(reading.source)]
    matchers += also
    return f"{metric or reading.metric}{{{','.join(dict.fromkeys(matchers))}}}"


def required_labels(source: Source) -> tuple[str, ...]:
    """A series must name node and device to be evidence. Where a name has alternatives, none can be required."""
    device, via = source.device, source.node.via
    node = [source.node.first] if via is None else [(label,) for label in via.by]
    names = [*node, *((device.first, *((part,) for part in device.join)) if device else ())]
    return tuple(dict.fromkeys(labels[0] for labels in names if len(labels) == 1))


def narrowed(group: Iterable[str], devices: Sequence[Labels] | None) -> Narrow:
    """Matchers that let these devices through. Others may pass too (labels are matched one by one): harmless."""
    if devices is None:
        return None
    labels = (name for name in group if any(name in device for device in devices))
    return tuple(_one_of_values(label, sorted({d.get(label, "") for d in devices})) for label in labels)


def _one_of_values(label: str, values: Sequence[str]) -> str:
    one = len(values) == 1
    return f"{label}={quote(values[0])}" if one else f"{label}=~{quote('|'.join(map(_regex, values)))}"


def narrowed_to_nodes(reading: Reading, devices: Sequence[Labels]) -> tuple[str, ...]:
    """Matchers that let all series of these devices' nodes through, where one of them has the node's label.

    Where the name is a part of the label, those that contain it.
    """
    if reading.source.node.part is None:
        return narrowed(reading.node_labels, devices) or ()
    names = sorted({device[label] for label in reading.node_key for device in devices if device.get(label)})
    if not names:
        return ()
    contains = f".*({'|'.join(map(_regex, names))}).*"
    return tuple(f"{label}=~{quote(f'({contains})?')}" for label in reading.node_labels)


def named_devices(reading: Reading, devices: Sequence[Device]) -> list[Narrow]:
    """Matchers for devices by their names: one set for each label that may carry the name.

    None at all where the reading cannot be narrowed, or names its devices in another number of parts.
    """
    spec = reading.source.device
    if reading.metric is None or spec is None or not devices:
        return []
    kind = reading.signal.device
    if spec.join:
        parts = [device.name.split("/") for device in devices]
        if any(len(names) != len(spec.join) for names in parts):
            return []
        each = zip(spec.join, zip(*parts, strict=True), strict=True)
        return [tuple(_spelled(kind, label, names) for label, names in each)]
    return [(_spelled(kind, label, [device.name for device in devices]),) for label in spec.first]


def same_name(kind: DeviceKind, name: str) -> str:
    """One name for one device: of a GPU `GPU-` and its UUID in small letters, whichever exporter says it.

    nvidia_gpu_exporter leaves the `GPU-` out. A name that is no UUID (an index, a PCI address) stays as it is.
    """
    if kind not in _OF_GPU:
        return name
    if name[: len(_GPU)].upper() == _GPU:
        return _GPU + name[len(_GPU) :].lower()
    return _GPU + name.lower() if _UUID.fullmatch(name) else name


def _spelled(kind: DeviceKind, label: str, names: Iterable[str]) -> str:
    """A matcher for devices by a label, however the exporter spells their names."""
    every = sorted(set(names))
    bare = [_regex(name.removeprefix(_GPU)) for name in every if kind in _OF_GPU and name.startswith(_GPU)]
    if not bare:
        return _one_of_values(label, every)
    others = [_regex(name) for name in every if not name.startswith(_GPU)]
    anyhow = f"(?i:({_GPU})?({'|'.join(bare)}))"
    return f"{label}=~{quote('|'.join([anyhow, *others]))}"


def names_node(reading: Reading, label: str, said: str) -> str:
    """A matcher for the series of one node. An address comes with the exporter's port.

    Where only a part of the value is the name, others that contain it pass too: who asks must look again.
    """
    if reading.source.node.part is not None:
        return f"{label}=~{quote(f'.*{_regex(said)}.*')}"
    if reading.source.node.means == "name":
        return f"{label}={quote(said)}"
    host = f"\\[?{_regex(said)}\\]?" if ":" in said else _regex(said)
    return f"{label}=~{quote(host + '(:[0-9]+)?')}"


def names_nodes(reading: Reading, label: str, said: Sequence[str]) -> tuple[str, ...]:
    """Matchers for the series of these nodes, which `label` of the node's key names: no label before it does."""
    if reading.source.node.part is not None:
        return narrowed_to_nodes(reading, [{label: name} for name in said])
    earlier = reading.node_labels[: reading.node_labels.index(label)]
    return (*(f'{other}=""' for other in earlier), f"{label}=~{quote(one_of(reading, said))}")


def one_of(reading: Reading, said: Sequence[str]) -> str:
    """A regular expression for what says one of these names; its group is the name. An address may have a port."""
    names = f"({'|'.join(map(_regex, said))})"
    return names if reading.source.node.means == "name" else f"\\[?{names}\\]?(?::[0-9]+)?"


def grouping(labels: Iterable[str]) -> str:
    """The labels of a `by` or `on`."""
    return ", ".join(labels)


def number(value: float) -> str:
    """A number as PromQL reads it."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _regex(value: str) -> str:
    """RE2-quoted: only what is special there, since Go refuses needless escapes of letters."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value)


def quote(value: str) -> str:
    """A PromQL string literal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
