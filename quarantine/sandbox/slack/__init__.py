"""A stand-in for Slack's Web API, for tests and the demo: strict where Slack is, and able to fail on demand."""

from quarantine.sandbox.slack.server import Fault, FaultKind, SlackServer, serve_slack
from quarantine.sandbox.slack.workspace import ALL_SCOPES, Message

__all__ = ["ALL_SCOPES", "Fault", "FaultKind", "Message", "SlackServer", "serve_slack"]
