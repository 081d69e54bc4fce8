"""Prometheus: whether it answers, its clock, for how long it remembers, and how fresh what each exporter gives is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from quarantine.core.policy import Rules
from quarantine.core.readings import Reading, readings
from quarantine.core.selectors import quote
from quarantine.core.trigger import Form
from quarantine.core.units import counted, format_duration
from quarantine.doctor.clocks import compared
from quarantine.doctor.finding import Finding, fault, good, note, warning
from quarantine.doctor.patient import Patient
from quarantine.livecheck.asking import Ask, Rejected, selectors_of

_LOOKED_BACK = timedelta(hours=1)  # for what is silent now
_METRICS = 40  # of one exporter that are asked at once
_BUILDS = 12  # that are told
_NAMES = {"prometheus": "Prometheus", "thanos": "Thanos", "victoriametrics": "VictoriaMetrics", "mimir": "Mimir"}


def check(patient: Patient) -> Iterator[Finding]:
    """Reachable, its version, its clock; how far back it must remember."""
    server, flavour = patient.prometheus(), patient.settings.prometheus.flavour
    version = server.version()
    yield good(f"{_NAMES[flavour]} at {server.url} answers" + (f": version {version}" if version else ""))
    yield compared(
        "Prometheus", server.clock(), "it is asked for the present of our clock, and may have no samples of that time"
    )
    rules = patient.known_rules()
    if rules is None or not rules.policies:
        return
    longest, whose = max((_looks_back(rules, name), name) for name in (policy.name for policy in rules.policies))
    needed = f"policy {whose} looks back {format_duration(longest)}, the longest of all"
    keeps = server.keeps()
    if keeps is None:
        yield note(f"for how long samples are kept is not told; {needed}")
    elif keeps < longest:
        yield fault(
            f"samples are kept for {format_duration(keeps)}, and {needed}",
            "raise --storage.tsdb.retention.time, or shorten the policy's times",
        )
    else:
        yield good(f"samples are kept for {format_duration(keeps)}; {needed}")


def _looks_back(rules: Rules, name: str) -> timedelta:
    policy = rules.policy(name)
    assert policy is not None  # noqa: S101  (the name is from the rules)
    spec = policy.spec
    memory = spec.trigger.memory if spec.trigger.form is Form.ABSENT else timedelta(0)
    return max(spec.trigger.window, memory, spec.recovery.lasting if spec.recovery is not None else timedelta(0))


def check_exporters(patient: Patient) -> Iterator[Finding]:
    """The newest sample of each exporter that the policies' signals name, and the versions that exporters tell."""
    metrics, rules, settings = patient.answering_metrics(), patient.rules(), patient.settings.prometheus
    ask = Ask(metrics, patient.now() - settings.delay, settings.timeout)
    absent = []
    for exporter, of_it in sorted(_by_exporter(rules).items()):
        texts = _metrics_of(of_it)
        if not texts:
            continue
        often = 2 * max(reading.signal.interval for reading in of_it)
        answer = ask(f"max({' or '.join(f'timestamp({text})' for text in texts)})")
        if isinstance(answer, Rejected):
            yield fault(f"{exporter}: {answer.why}")
        elif answer:
            yield _age(exporter, timedelta(seconds=max(0.0, ask.at.timestamp() - answer[0].value)), often)
        elif ask.number(
            f"count({' or '.join(f'last_over_time({t}[{format_duration(_LOOKED_BACK)}])' for t in texts)})"
        ):
            yield warning(
                f"{exporter} had samples within the last {format_duration(_LOOKED_BACK)}, and has none now",
                "see whether it runs and is scraped (`up`): of silent machines nothing is known, and nothing is done",
            )
        else:
            absent.append(exporter)
    if absent:
        yield note(
            f"no sample of: {', '.join(absent)}",
            "nothing is to be done where they are not in use: a signal may name several exporters",
        )
    yield from _versions(ask, rules)


def _age(exporter: str, age: timedelta, often: timedelta) -> Finding:
    shown = format_duration(timedelta(seconds=round(age.total_seconds())))
    if age <= often:
        return good(f"{exporter}: its newest sample is {shown} old")
    return warning(
        f"{exporter}: its newest sample is {shown} old, and older than {format_duration(often)} is taken for unknown",
        "see whether it is scraped (`up`) and how often; where samples arrive late, set prometheus.delay",
    )


def _by_exporter(rules: Rules) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = defaultdict(list)
    for policy in rules.policies:
        for reading in readings(rules.signal_of(policy), rules.fleet.matchers):
            found[reading.source.exporter].append(reading)
    return found


def _metrics_of(of_it: Iterable[Reading]) -> list[str]:
    texts = [next(selectors_of(reading)).text() for reading in of_it if reading.metric is not None]
    return list(dict.fromkeys(texts))[:_METRICS]


def _versions(ask: Ask, rules: Rules) -> Iterator[Finding]:
    """By the metric `…_build_info`, which most exporters have."""
    matchers = "".join(f",{name}={quote(value)}" for name, value in rules.fleet.matchers.items())
    series = f'{{__name__=~".+_build_info"{matchers}}}'
    answer = ask(f'count by (called, version) (label_replace({series}, "called", "$1", "__name__", "(.+)_build_info"))')
    if isinstance(answer, Rejected) or not answer:
        return
    found: dict[str, list[str]] = defaultdict(list)
    for sample in sorted(answer, key=lambda sample: -sample.value):
        version = sample.labels.get("version") or "no version"
        found[sample.labels.get("called", "")].append(f"{version} ({counted(sample.value) or 0})")
    told = [f"{name} {', '.join(versions)}" for name, versions in sorted(found.items())]
    more = f", and {len(told) - _BUILDS} more" if len(told) > _BUILDS else ""
    yield note(f"versions, and how many there are of each: {'; '.join(told[:_BUILDS])}{more}")
