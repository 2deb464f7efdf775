"""Sizes in bytes, as numbers or as text such as "64M"."""

from __future__ import annotations

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES_MAX = 1 << 40


def size_of(size: int | str, argument: str) -> int:
    """Returns a size in bytes. `argument` names it in the `ValueError` for any other text."""
    if isinstance(size, int) and not isinstance(size, bool):
        if 0 < size <= _BYTES_MAX:
            return size
    elif isinstance(size, str):
        digits = size.strip().upper().removesuffix("B").removesuffix("I")
        unit = digits[-1:] if digits[-1:] in _UNITS else ""
        number = digits.removesuffix(unit).strip()
        if number.isascii() and number.isdigit() and len(number) < 20:
            found = int(number) * _UNITS[unit]
            if 0 < found <= _BYTES_MAX:
                return found
    raise ValueError(
        f"{argument} is {size!r}, expected a number of bytes up to 1T, or text such as '512K',"
        " '64M' or '2G'"
    )
