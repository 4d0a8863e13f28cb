"""The tables of the app."""

from trading.models.connection import Broker, BrokerConnection
from trading.models.digest import Digest, Simulation
from trading.models.runs import ImportRun, ImportState, ScoreRun, ScoreState
from trading.models.tag import BiasTag, Insight, Label, Rule, RuleBreak, Source
from trading.models.trade import AiSignature, Side, Trade

__all__ = [
    "AiSignature",
    "BiasTag",
    "Broker",
    "BrokerConnection",
    "Digest",
    "ImportRun",
    "ImportState",
    "Insight",
    "Label",
    "Rule",
    "RuleBreak",
    "ScoreRun",
    "ScoreState",
    "Side",
    "Simulation",
    "Source",
    "Trade",
]
