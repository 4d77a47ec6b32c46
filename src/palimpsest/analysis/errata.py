"""What the papers say and what their released code does, as data. Imports nothing heavy.

Read from the public scripts of Tamkin et al. 2020 and of Singh & Giovanardi, and from the texts themselves. Where a
difference can be run, `protocol` names the protocol that makes it (see :mod:`palimpsest.specs.differences`).
"""

from __future__ import annotations

from dataclasses import dataclass

TAMKIN, SINGH, OTHER = "Tamkin et al. 2020", "Singh & Giovanardi", "the other CS224N report"


@dataclass(frozen=True)
class Erratum:
    """One discrepancy: the choice, what is written, what was done, and what that may change."""

    number: int
    source: str
    choice: str
    written: str
    released: str
    matters: str = ""
    protocol: str = ""


ERRATA = (
    Erratum(
        1, TAMKIN, "scale of re-initialised weights",
        "normal with σ = 0.02, truncated at ±0.04 (two σ): standard deviation 0.0176",
        "scipy's truncnorm is given ±2σ as cuts, which it takes in units of σ: all weights lie within ±0.0008, "
        "standard deviation 0.00046, 38 times smaller",
        "a layer of near-zero weights passes its input on through the residual connection almost unchanged; one drawn "
        "as written does not",
        "near-zero-init",
    ),
    Erratum(
        2, TAMKIN, "biases of re-initialised layers",
        "all parameters but those of layer norm are sampled",
        "only the weights of linear layers are; their biases stay pretrained (BERT itself began with zeros)",
        "something pretrained remains in layers that are called random",
        "biases-kept",
    ),
    Erratum(
        3, TAMKIN, "what the classifier sees",
        "the mean of the layer's hidden states",
        "the first token, through the pretrained pooler (dense, tanh) and dropout; the pooler is never re-initialised, "
        "and frozen in probing",
        "that probes of the lower six layers are near chance may come from a pooler that was made for layer 12",
        "pretrained-pooler",
    ),
    Erratum(
        4, TAMKIN, "optimiser",
        "Adam, learning rate 2e-5, other settings at their defaults",
        "AdamW without weight decay, the rate falling linearly to zero without warm-up, gradients clipped at norm 1",
        "late steps are smaller, and large gradients of random layers are tamed",
        "decaying-rate",
    ),
    Erratum(
        5, TAMKIN, "layer norm of re-initialised layers",
        "γ = 1, β = 0",
        "the same, unless a flag keeps it; Figure 2 reads its 5k curve from another directory than the other two",
        "curves of one figure may come from two regimes",
        "layer-norm-kept",
    ),
    Erratum(
        6, TAMKIN, "five times the learning rate (Figure 7)",
        "re-initialised layers learn at 5 × 2e-5",
        "a range that ends too early leaves the last layer out of both optimisers, so it never trains; the base rate "
        "is 5e-5 for want of an argument, so the ratio is 2",
        "the figure does not show what its caption says",
        "released-learning-rate",
    ),
    Erratum(
        7, TAMKIN, "permutations (Figure 4)",
        "layers are shuffled at random, the nth time alike for every task",
        "RandomState(n).permutation(12) for n = 1..10; every run has the training seed 1",
        "the permutations are reproducible, and are the ones used here; trials differ by permutation only",
    ),
    Erratum(
        8, TAMKIN, "seeds",
        "another subsample for each trial",
        "one seed decides subsample, classifier, order and dropout together",
        "the sources of variance cannot be told apart; here each has a seed (`hold`)",
    ),
    Erratum(
        9, TAMKIN, "95 % intervals",
        "from a t distribution",
        "2.667/√n times the standard deviation with divisor n, whatever n is; it should be 4.303 (n = 3), 2.262 "
        "(n = 10) or 2.010 (n = 50) over √n, with divisor n - 1",
        "bars of three trials are about half as long as they should be",
    ),
    Erratum(
        10, TAMKIN, "probing",
        "eight trials, early stopping within 40 epochs, on all examples, with the probed layers frozen",
        "three trials; the model cut to k layers is saved and read again for its last evaluation, and then has twelve "
        "layers again because its configuration still says so",
        "the probing scores may not be those of the probed model; not reproduced here",
    ),
    Erratum(
        11, TAMKIN, "length of inputs", "not said", "128 tokens, always padded to 128",
        "costs time; results should not change beyond rounding", "padded",
    ),
    Erratum(
        12, TAMKIN, "number of trials", "50 at 500 examples, 3, and 10 for blocks",
        "the run script makes 3, the plot script expects 50",
    ),
    Erratum(13, TAMKIN, "Table 2", "872k validation examples of SST-2", "872", "a slip of the pen"),
    Erratum(
        14, SINGH, "distance of weights",
        "the L2 distance between weight matrices of the output sub-layer",
        "the spectral norm (numpy's ord=2), of the second feed-forward projection only; curves are scaled to 0..1",
        "spectral and Frobenius norm rank layers differently",
    ),
    Erratum(
        15, OTHER, "scale of re-initialised weights",
        "a standard deviation of 0.2 in one sentence; σ = 0.02 and cuts at ±0.04 in the next",
        "scipy's truncnorm between -0.02 and 0.02 with its default scale of 1: all but uniform, standard deviation "
        "0.0115",
        "neither of the two laws that are written",
        "cs224n-cased",
    ),
    Erratum(
        16, OTHER, "what is reported", "scores", "the better of two runs", "scores are too high, and gains unreliable"
    ),
    Erratum(
        17, TAMKIN, "account of the runtime (I.4)",
        "ten trials of each block in the text, two modes; k = 0..12; no 50k for CoLA",
        "the account reckons three trials, one mode, twelve values of k, and three tasks at 50k",
        "blocks cost more than stated, 50k less; both are compared as stated",
    ),
)  # fmt: skip
