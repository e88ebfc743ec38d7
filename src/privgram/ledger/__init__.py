"""The budget on disk, and what accounts for it."""

from privgram.ledger.entries import Composition, Entry
from privgram.ledger.file import BudgetExceeded, Ledger, check_ledger

__all__ = ["BudgetExceeded", "Composition", "Entry", "Ledger", "check_ledger"]
