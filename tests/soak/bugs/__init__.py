"""Mistakes that a change might make, to be planted into a copy of the code."""

from tests.soak.bugs.bug import Bug
from tests.soak.bugs.durability import DURABILITY
from tests.soak.bugs.imports import IMPORTS
from tests.soak.bugs.locks import LOCKS
from tests.soak.bugs.repairs import REPAIRS
from tests.soak.bugs.trust import TRUST

__all__ = ["BUGS", "Bug"]

BUGS = (*DURABILITY, *LOCKS, *TRUST, *REPAIRS, *IMPORTS)
