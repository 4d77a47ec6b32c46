"""Pretraining a small BERT: corpus file → tokeniser → masked language modelling and/or distillation → checkpoint."""

from palimpsest.pretraining.card import write_card
from palimpsest.pretraining.loop import Progress
from palimpsest.pretraining.run import pretrain
from palimpsest.pretraining.settings import PretrainSettings

__all__ = ["PretrainSettings", "Progress", "pretrain", "write_card"]
