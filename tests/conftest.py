"""Fixtures that several rooms need."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import HealthCheck

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# How long an example takes says more of the machine than of the code; and a failure should be repeatable.
hypothesis.settings.register_profile("palimpsest", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("palimpsest")
if examples := os.environ.get("PALIMPSEST_EXAMPLES"):  # `make fuzz`: many, and others each time
    hypothesis.settings.register_profile(
        "fuzz", deadline=None, print_blob=True, max_examples=int(examples), suppress_health_check=list(HealthCheck)
    )
    hypothesis.settings.load_profile("fuzz")

# Started in the background of a script, the tests and the commands that they run would be deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """A directory with GLUE and SQuAD files; tests on real data run where PALIMPSEST_DATA names one."""
    if not os.environ.get("PALIMPSEST_DATA"):
        pytest.skip("PALIMPSEST_DATA does not name a directory with GLUE and SQuAD")
    return Path(os.environ["PALIMPSEST_DATA"])


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerBase) -> Path:
    """A checkpoint directory with a random BERT: 3 layers, 2 heads, hidden size 16, 40 positions."""
    from families import save

    return save(tmp_path_factory.mktemp("checkpoints") / "tiny", "bert", tiny_tokenizer)


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """An uncased WordPiece tokenizer with all ASCII characters and a few words; anything else falls into letters."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    words = ["the", "a", "of", "in", "is", "was", "who", "what", "when", "where", "film", "good", "bad", "not", "and"]
    words += ["king", "queen", "river", "city", "born", "year"]
    entries = [*special, *characters, *(f"##{c}" for c in characters), *words, "##ing", "##ed", "##s"]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
