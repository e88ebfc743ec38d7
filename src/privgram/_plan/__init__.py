"""What a release will give, before any data is read: noise, sample sizes, standard errors."""

from privgram._plan.comparison import Plan, PlanRow, TermRow, plan
from privgram._plan.outlook import Curve, CurveRow, Outlook, OutlookRow

__all__ = [
    "Curve",
    "CurveRow",
    "Outlook",
    "OutlookRow",
    "Plan",
    "PlanRow",
    "TermRow",
    "plan",
]
