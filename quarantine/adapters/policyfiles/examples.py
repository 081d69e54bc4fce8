"""What the reference page says that no model can: how values are written, and an example of each kind."""

from __future__ import annotations

from collections.abc import Mapping

INTRODUCTION = """\
# The policy language

*Made from the models by `quarantine policy reference`; do not edit it by hand.*

Policies are YAML files. A file has one document or several, with `---` between them. Each says `apiVersion:
quarantine.gpu/v1alpha1` and its `kind`: a [Signal](#signal) is what is measured, a [Policy](#policy) what is bad and
what follows, the [Fleet](#fleet) which machines there are, the [Defaults](#defaults) what policies have in common, and
a [Procedure](#procedure) what may be run on a machine that is out of service. Of a directory, all `*.yaml` and `*.yml`
files in it and below it are read; hidden ones and tests (`*_test.yaml`) are not.

    quarantine policy check policies/
    quarantine policy check policies/ --prometheus http://prometheus:9090

The first says what is wrong with the files themselves, each fault as `file:line:column: message` with a hint below,
and ends with 1 if there is any. A *note* says what is worth knowing, such as a policy that another makes needless,
and fails nothing. The second also asks a Prometheus: which selectors match no series, and why; which nodes lack a
signal; how many series each policy touches; and whether values come as often as the signal says. The nodes are those
of `--nodes FILE` (what `kubectl get nodes -o json` prints), else those that kube-state-metrics tells of, else those
that other policies see.

In an editor with the YAML language server, a first line such as this brings completion and explanation; the file
stands beside the shipped policies, and `quarantine policy schema` prints it:

    # yaml-language-server: $schema=schema.json

## Values

| | is written | |
|---|---|---|
| duration | `30s`, `5m`, `1h30m`, `500ms`, `27d` | always with its unit; more than 0 and at most `366d` |
| share | `10%` | always a percentage: 0.5 might mean half, or half a percent |
| bound | `78`, or `gpu-hot` | a number, or the name of a threshold in the Defaults |
| name | `gpu-hot`, `gpu.temperature` | lower case, digits, `-` and `.`; at most 63 characters |

The YAML is a small and safe part of YAML: mappings, lists, text, numbers, `true` and `false`. There are no anchors,
tags or merge keys, no key twice, and nothing that two readers take for two things (`yes`, `017`, `1:30`).

## What fits together

| trigger | signal | recovery |
|---|---|---|
| `above` | gauge | `below`, at or under the trigger |
| `below` | gauge | `above`, at or over the trigger |
| `outside` | gauge | `above` and `below`, both within the range |
| `aboveSiblings` | gauge of a device on a node | `below`, also a distance |
| `events` | counter | neither: none for the time |
| `absent` | any with metrics; of nodes, any | neither: seen for the time |

A window needs at least two intervals of its signal, and a bound must be one that a plausible value can cross. A
recovery proves health under load: its load is a gauge of the same device or of its node. `models` need a label with
the model in each source. An `escalation` needs a recovery, a `grace` after boot the fleet's uptime signal, a `grace`
after a driver reload a heartbeat in each source.

A `correlation` goes by names of the fleet's topology, and by two that need no label: `job`, machines on which one
training job runs, and `exporter`, machines that one and the same exporter's metric tells of. A driver's version is a
label of the node like any other (`driver: nvidia.com/cuda.driver-version.full`): name it in the topology.

## What follows from a finding

Left alone, a policy marks a machine (cordon and taint) and does nothing else to it: what runs there goes on, nothing
is repaired, and a person's word brings it back. Each of these is a word more:

| in `response` | says | needs |
|---|---|---|
| `evidence` | what is run first, before the machine is changed | a [Procedure](#procedure) |
| `drain` | when what runs there is asked to leave | for `after-checkpoint`, `workloads.checkpoint` in the Fleet |
| `ticket`, or `ladder` | which remedies, and in which order | for `reset` and `reboot`, a Procedure each |
| `repeat` | that a machine out so often goes to the last rung at once | a `ladder` |
| `release` | what brings it back: a person, or proof | a Procedure where there is a `burnIn` |

In a `ladder` nothing stands after `replace`, and the provider is told once: what is done later is added to the ticket.
A `burnIn` goes with `by-hand` too: a person is then asked once it has succeeded.

Where several policies find a machine bad, the strongest response of them counts: the least patient drain, the ladder
of the most severe finding, the longest probation; and a person's word where any of them asks for it.

Defaults are given by severity as well, so that one place says how a fatal fault is treated. A policy's own word goes
before its severity's, and that before what all have; of a mapping, each field by itself. A policy with a `ticket` gets
no `ladder`, and one that takes no machine out (`taint: false`) nothing that is about machines that are out.

A change of a Procedure, like one of the Defaults, is a change of the policies that use it: they observe for their
first cycles.
"""

EXAMPLES: Mapping[str, str] = {
    "Signal": """\
apiVersion: quarantine.gpu/v1alpha1
kind: Signal
metadata:
  name: gpu.temperature
spec:
  description: Temperature of the GPU's core.
  unit: °C
  device: gpu
  type: gauge
  plausible: {min: 1, max: 129}
  interval: 30s
  sources:
    - exporter: dcgm-exporter
      metrics: [DCGM_FI_DEV_GPU_TEMP]
      node: {first: [Hostname, hostname]}
      device: {first: [UUID, uuid], index: gpu}
      model: modelName
      heartbeat: DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION
---
apiVersion: quarantine.gpu/v1alpha1
kind: Signal
metadata:
  name: gpu.tensor-active
spec:
  description: Share of cycles in which a tensor core was busy.
  unit: share of cycles
  device: gpu
  type: gauge
  plausible: {min: 0, max: 1}
  interval: 30s
  sources:
    - exporter: dcgm-exporter
      metrics: [DCGM_FI_PROF_PIPE_TENSOR_ACTIVE]
      node: {first: [Hostname, hostname]}
      device: {first: [UUID, uuid], index: gpu}
""",
    "Policy": """\
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata:
  name: gpu-hot
spec:
  description: A GPU that runs hot throttles, and a collective is as fast as its slowest member.
  owner: infrastructure on call
  severity: critical
  mode: observe
  signal: gpu.temperature
  trigger:
    above: gpu-hot
    for: 5m
    tolerate: 10%
    models:
      - model: "*A100*"
        above: 82
  recovery:
    below: 72
    for: 30m
    load: {signal: gpu.tensor-active, above: 0.1}
  grace:
    driver: 5m
  response:
    drain: {when: after-checkpoint, deadline: 12h}
    ladder:
      - {do: reset, by: gpu-reset}
      - do: report
    release: {when: on-proof, probation: 2h, burnIn: burn-in}
""",
    "Fleet": """\
apiVersion: quarantine.gpu/v1alpha1
kind: Fleet
metadata:
  name: fleet
spec:
  pools:
    - name: gpu
      nodeSelector: {nvidia.com/gpu.present: "true"}
      size: 128
      spares: 4
      budget: {quarantined: 5%, unavailable: 10%, perHour: 2%}
      provider: acme
      expected: {gpus: 8, ibPorts: 8}
  topology:
    rack: topology.kubernetes.io/rack
  workloads:
    checkpoint: {annotation: example.com/last-checkpoint}
  providers:
    - name: acme
      description: Owns and repairs the machines.
  routes:
    - severity: fatal
      channel: C0123456789
  maintenance:
    labels: {nvidia.com/gpu-driver-upgrade-state: [cordon-required, drain-required]}
""",
    "Defaults": """\
apiVersion: quarantine.gpu/v1alpha1
kind: Defaults
metadata:
  name: defaults
spec:
  policy:
    owner: infrastructure on call
    mode: observe
    breaker: {maxShare: 10%}
    correlation: {by: [rack], within: 5m}
  severities:
    fatal:
      response:
        drain: {when: on-restart, deadline: 4h, then: now}
        ticket: replace
  thresholds:
    gpu-hot: 78
""",
    "Procedure": """\
apiVersion: quarantine.gpu/v1alpha1
kind: Procedure
metadata:
  name: burn-in
spec:
  description: NVIDIA's diagnostics at level 3; success proves that every GPU bears full load.
  timeout: 90m
  job:
    pod:
      containers:
        - name: dcgm
          image: nvcr.io/nvidia/cloud-native/dcgm:4.5.2-1-ubuntu22.04
          command: [/bin/sh, -c]
          args: ["nv-hostengine && exec dcgmi diag --run 3"]
          resources:
            limits: {nvidia.com/gpu: 8}
---
apiVersion: quarantine.gpu/v1alpha1
kind: Procedure
metadata:
  name: gpu-reset
spec:
  description: Resets the machine's GPUs out of band.
  timeout: 10m
  command: [/usr/local/bin/reset-gpus, --host, "{node}", --serial, "{system_uuid}"]
""",
}
