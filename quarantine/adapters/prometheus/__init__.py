"""Prometheus, and what speaks its API: Thanos, VictoriaMetrics, Mimir."""

from quarantine.adapters.prometheus.client import PrometheusMetrics
from quarantine.adapters.prometheus.options import Flavour, PrometheusSettings

__all__ = ["Flavour", "PrometheusMetrics", "PrometheusSettings"]
