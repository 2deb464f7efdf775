"""Sizes in bytes, as numbers or as text such as "64M"."""

from __future__ import annotations

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(size: int | str, argument: str) -> int:
    """Returns a size in bytes. `argument` names it in the `ValueError` for any other text."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size > 0:
            return size
    elif isinstance(size, str):
        digits = size.strip().upper().removesuffix("B").removesuffix("I")
        unit = digits[-1:] if digits[-1:] in ("K", "M", "G") else ""
        number = digits.removesuffix(unit).strip()
        if number.isascii() and number.isdigit() and int(number) > 0:
            return int(number) * _UNITS[unit]
    raise ValueError(
        f"{argument} is {size!r}, expected a number of bytes, or text such as '512K', '64M' or '2G'"
    )
