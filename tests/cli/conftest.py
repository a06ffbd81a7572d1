from tests.cli.asking_status import kcl, say

__all__ = ["kcl", "say"]
