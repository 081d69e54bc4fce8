"""Numbers as Go's client library for Prometheus writes them."""

from __future__ import annotations


def go_float(value: float) -> str:
    """Shortest digits that read back as `value`, with an exponent from 1e+06 on and below 0.0001."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    text = repr(float(value))
    if "e" in text or abs(value) < 1e6:
        return text
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    whole, _, fraction = digits.partition(".")
    mantissa = (whole + fraction).rstrip("0")
    point = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{sign}{mantissa[0]}{point}e+{len(whole) - 1:02d}"
