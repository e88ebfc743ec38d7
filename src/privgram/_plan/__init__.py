"""What a release will give, before any data is read: noise, sample sizes, standard errors."""

from privgram._plan.comparison import Plan, PlanRow, TermRow, plan
from privgram._plan.study import Curve, CurveRow, Study, StudyRow

__all__ = ["Curve", "CurveRow", "Plan", "PlanRow", "Study", "StudyRow", "TermRow", "plan"]
