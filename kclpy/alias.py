"""Puts this package in the place of amazon_kclpy, for code that says `import amazon_kclpy`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

_MODULES = (
    "checkpoint_error",
    "dispatch",
    "kcl",
    "messages",
    "v2",
    "v2.processor",
    "v3",
    "v3.processor",
)


def stand_in_for_amazon_kclpy() -> bool:
    """Make `import amazon_kclpy` find this package from now on, unless amazon_kclpy is installed. Returns whether
    it does.
    """
    if "amazon_kclpy" not in sys.modules and find_spec("amazon_kclpy") is not None:
        return False
    sys.modules["amazon_kclpy"] = import_module("headrace.kclpy")
    for name in _MODULES:
        sys.modules[f"amazon_kclpy.{name}"] = import_module(f"headrace.kclpy.{name}")
    return True
