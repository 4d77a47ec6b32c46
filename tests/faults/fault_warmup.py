"""Imported by the process that workers are forked from: what they would otherwise import again and again."""

from contextlib import suppress

import torch
import torch._dynamo
import transformers.models.bert.modeling_bert
import transformers.models.bert.tokenization_bert  # noqa: F401

import palimpsest.execution.local
import palimpsest.execution.run
import palimpsest.studies
import palimpsest.training.stacked  # noqa: F401

with suppress(ImportError):  # transformers imports it where it is installed
    import accelerate  # noqa: F401

torch.func.vmap(lambda x: 2 * x)(torch.ones(2))
