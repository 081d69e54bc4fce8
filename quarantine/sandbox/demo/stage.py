"""Everything the demo needs, started on free loopback ports and gone at the end: only `.demo/` stays."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from quarantine.core.errors import UsageError
from quarantine.core.policy import Rules
from quarantine.ledger import migrate
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.sandbox.child import BoundChild
from quarantine.sandbox.demo import policies
from quarantine.sandbox.demo.cluster import OWNED_BY, DemoCluster
from quarantine.sandbox.exporters.server import ExporterServer, serve_exporters
from quarantine.sandbox.fleet import Fleet, wall_clock
from quarantine.sandbox.kubeapi import KubeApi, serve
from quarantine.sandbox.prometheus import PrometheusServer, ScrapeJob
from quarantine.sandbox.slack.server import SlackServer, serve_slack

CHANNEL = "C0QUARANTINE"
JOB = "fleet"
SCRAPE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Options:
    """What the person who starts the demo chooses."""

    folder: Path
    nodes: int = 32
    factor: int = 15  # the one setting by which all windows of the shipped policies are shorter
    seed: int = 7
    kubeconfig: Path | None = None
    database_url: str | None = None
    slack_token: str | None = None
    slack_channel: str | None = None
    picture: Path | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The set, ready to play on."""

    options: Options
    run: str
    fleet: Fleet
    exporters: ExporterServer
    prometheus: PrometheusServer
    cluster: DemoCluster
    slack: SlackServer | None  # None: the real Slack
    rules: Rules
    overlay: str
    config: Path
    database_url: str
    cluster_name: str
    environment: Mapping[str, str]

    def ledger(self) -> SqlLedger:
        """A reader of the controller's ledger."""
        return open_ledger(self.database_url, self.cluster_name, now=wall_clock)

    def controller(self) -> BoundChild:
        """Start the controller as anybody would: `quarantine run`."""
        command = [sys.executable, "-m", "quarantine", "run", "--config", str(self.config)]
        log = self.options.folder / "controller.log"
        return BoundChild(command, log=log, cwd=Path.cwd(), env={**os.environ, **self.environment})

    def follow_targets(self) -> None:
        """Tell Prometheus of exporters that came or went."""
        self.prometheus.set_targets(JOB, self.exporters.targets())


@contextmanager
def set_up(options: Options) -> Iterator[Stage]:
    """Build the stage. Raises UsageError, Unavailable and Refused, each with one sentence."""
    folder = options.folder.resolve()
    _clear(folder)
    run = f"r{secrets.token_hex(3)}"  # a letter first: 085354 and 9299e1 are numbers to some readers of YAML
    prefix = f"{OWNED_BY}-{run}-" if options.kubeconfig else "gpu-node-"
    with ExitStack() as stack:
        fleet = Fleet(options.nodes, options.seed, prefix=prefix)
        exporters = stack.enter_context(serve_exporters(fleet))
        prometheus = stack.enter_context(
            PrometheusServer(jobs=[ScrapeJob(JOB, exporters.targets())], scrape_interval=SCRAPE)
        )
        kubeconfig = options.kubeconfig or _emulator(stack, folder)
        cluster = DemoCluster(kubeconfig, run, real=options.kubeconfig is not None)
        stack.callback(cluster.remove)
        cluster.create(fleet)
        slack, environment, slack_settings = _slack(stack, options)
        rules, overlay = policies.write(folder / "policies", factor=options.factor, fleet=_fleet(options, run))
        database_url = options.database_url or f"sqlite:///{folder / 'quarantine.db'}"
        migrate.upgrade(database_url)
        # The embedded file is new at every run; a Postgres may hold earlier ones.
        name = "default" if options.database_url is None else f"demo-{run}"
        settings = {
            "cluster": name,
            "mode": "enforce",
            "policies": [str(folder / "policies")],
            "cycle": {"interval": "1s", "deadline": "20s", "coverage_interval": "10s"},
            "prometheus": {"url": prometheus.url, "timeout": "10s"},
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "slack": slack_settings,
            "tickets": {"kind": "directory", "directory": str(folder / "tickets")},
            "log": {"format": "console"},
        }
        if options.database_url is None:
            settings["database_url"] = database_url  # any other may hold a password, which no file should
        config = folder / "quarantine.yaml"
        config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        yield Stage(
            options=options,
            run=run,
            fleet=fleet,
            exporters=exporters,
            prometheus=prometheus,
            cluster=cluster,
            slack=slack,
            rules=rules,
            overlay=overlay,
            config=config,
            database_url=database_url,
            cluster_name=name,
            environment={**environment, "QUARANTINE_DATABASE_URL": database_url},
        )


def _clear(folder: Path) -> None:
    """Only a folder that an earlier demo made is emptied."""
    marker = folder / ".quarantine-demo"
    if folder.exists() and any(folder.iterdir()) and not marker.exists():
        raise UsageError(f"{folder} is not empty and no earlier demo made it: name another folder with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    marker.write_text("made by quarantine demo, and emptied by the next one\n", encoding="utf-8")


def _emulator(stack: ExitStack, folder: Path) -> Path:
    server = stack.enter_context(serve(KubeApi()))
    return server.write_kubeconfig(folder / "kubeconfig")


def _slack(stack: ExitStack, options: Options) -> tuple[SlackServer | None, dict[str, str], dict[str, str]]:
    if options.slack_token is not None:
        if not options.slack_channel:
            raise UsageError("a Slack token needs a channel: set QUARANTINE_SLACK__CHANNEL to the channel's id")
        return None, {"QUARANTINE_SLACK__TOKEN": options.slack_token}, {"channel": options.slack_channel}
    token = f"xoxb-sandbox-{secrets.token_hex(8)}"
    server = stack.enter_context(serve_slack(token=token, channels=[CHANNEL]))
    return server, {"QUARANTINE_SLACK__TOKEN": token}, {"channel": CHANNEL, "base_url": server.base_url}


def _fleet(options: Options, run: str) -> dict[str, Any]:
    pool = {
        "name": "gpu",
        "nodeSelector": {"nvidia.com/gpu.present": "true", OWNED_BY: run},
        "size": options.nodes,
        "budget": {"quarantined": 4, "unavailable": 6, "perHour": 4},
        "provider": "sandbox-provider",
    }
    return {"pools": [pool]}
