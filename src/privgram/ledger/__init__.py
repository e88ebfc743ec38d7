"""The budget on disk, and what accounts for it."""

from privgram.ledger.entries import Composition, Entry
from privgram.ledger.file import BudgetExceeded, Ledger, Reservation, check_ledger

__all__ = ["BudgetExceeded", "Composition", "Entry", "Ledger", "Reservation", "check_ledger"]
