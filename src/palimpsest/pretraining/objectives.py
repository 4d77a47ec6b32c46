"""What the student learns from: a teacher's hidden states, word by word and layer by layer, and hidden pieces.

**Distillation.** On both sides the hidden states are averaged over the pieces of each word, so the two vocabularies
need not agree. The loss of student layer k is ‖linear_k(student_k) − layernorm(teacher_k)‖², averaged over words and
dimensions; as the targets have unit variance, it reads as the share of the variance that is not yet explained. One
linear map per layer, which is thrown away afterwards. Layer 0 is the output of the embeddings.

**Masked language modelling.** A fixed number of pieces in every row is hidden from the student (80 % become [MASK],
10 % another piece, 10 % stay) and predicted from its last layer. The teacher sees the clean text; words with a hidden
piece are left out of the distillation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from palimpsest import streams
from palimpsest.pretraining import tokenizer as own
from palimpsest.pretraining.networks import RunLayer, Teacher, hidden_states, layout, make_student, run_layer
from palimpsest.pretraining.settings import PretrainSettings

Batch = dict[
    str, torch.Tensor
]  # student_ids, student_words and, with a teacher, teacher_ids, teacher_words: [rows, length]


@dataclass(frozen=True)
class Losses:
    """The losses of one batch; per layer for the distillation, from the embeddings upwards."""

    total: torch.Tensor
    distillation: torch.Tensor | None = None  # [layers + 1]
    mlm: torch.Tensor | None = None
    accuracy: torch.Tensor | None = None  # of the hidden pieces

    def flat(self) -> torch.Tensor:
        """All of them in one vector, detached: total, then those that are there."""
        parts = [self.total[None]]
        if self.distillation is not None:
            parts.append(self.distillation)
        if self.mlm is not None and self.accuracy is not None:
            parts += [self.mlm[None], self.accuracy[None]]
        return torch.cat([p.detach().float() for p in parts])


def word_average(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[rows, words, pieces]: the matrix that averages the pieces of each word; rows of absent words are zero."""
    number = torch.arange(words.shape[1], device=words.device)
    belongs = words[:, None, :] == number[None, :, None]
    return (belongs / belongs.sum(-1, keepdim=True).clamp(min=1)).to(dtype)


def layer_loss(
    student: torch.Tensor,
    teacher: torch.Tensor,
    average_student: torch.Tensor,
    average_teacher: torch.Tensor,
    counted: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
) -> torch.Tensor:
    """The distillation loss of one layer, over the words that are counted."""
    predicted = F.linear(average_student @ student.to(average_student.dtype), weight, bias).float()
    target = (average_teacher @ teacher.to(average_teacher.dtype)).float()
    error = (predicted - F.layer_norm(target, target.shape[-1:])).square().mean(-1)
    return (error * counted).sum() / counted.sum().clamp(min=1)


def mlm_loss(
    hidden: torch.Tensor, chosen: torch.Tensor, labels: torch.Tensor, head: nn.Module, embeddings: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy and accuracy at the chosen positions [rows, n]; labels of −100 do not count."""
    picked = hidden.gather(1, chosen[..., None].expand(-1, -1, hidden.shape[-1]))
    logits = head(picked, embeddings).flatten(0, 1).float()
    flat = labels.flatten()
    counted = (flat != -100).sum().clamp(min=1)
    loss = F.cross_entropy(logits, flat, ignore_index=-100, reduction="sum") / counted
    return loss, (logits.argmax(-1) == flat).sum() / counted


class MlmHead(nn.Module):
    """BERT's prediction head; the matrix to the vocabulary is that of the embeddings."""

    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, hidden: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        return F.linear(self.norm(F.gelu(self.dense(hidden))), embeddings, self.bias)


class Objective(nn.Module):
    """The student with everything that is trained beside it, as a function from a batch to its losses."""

    def __init__(self, settings: PretrainSettings, teacher: Teacher | None) -> None:
        super().__init__()
        self.settings = settings
        self.teacher = teacher  # a plain dataclass, hence no part of this module's parameters
        self.student = make_student(settings)
        self.mlm_weight = settings.mlm(teacher=teacher is not None)
        self.run_layer: RunLayer = run_layer
        self.layer_loss: Callable[..., torch.Tensor] = layer_loss
        self.mlm_loss: Callable[..., tuple[torch.Tensor, torch.Tensor]] = mlm_loss
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed + 1)
            self.projections = nn.ModuleList(
                nn.Linear(settings.hidden, teacher.hidden) for _ in range(settings.layers + 1) if teacher
            )
            self.head = MlmHead(settings.hidden, settings.vocabulary) if self.mlm_weight else None

    def compile_parts(self) -> None:
        """Compile one layer of each network and the losses; their code is shared by all layers."""
        self.run_layer = torch.compile(run_layer, dynamic=False)
        self.layer_loss = torch.compile(layer_loss, dynamic=False)
        self.mlm_loss = torch.compile(mlm_loss, dynamic=False)

    def teacher_layer(self, layer: int) -> int:
        """The layer that student layer `layer` imitates: the same share of the way up."""
        assert self.teacher is not None
        return round(layer * self.teacher.layers / self.settings.layers)

    def forward(self, batch: Batch, mask_key: tuple[int, int]) -> Losses:
        ids, words = batch["student_ids"], batch["student_words"]
        positions, mask = layout(ids, cls=own.CLS, pad=own.PAD)
        hidden_words = torch.zeros_like(words, dtype=torch.bool)
        if self.head is not None:
            ids, chosen, labels = hide(ids, mask_key, self.settings)
            hidden_words = _words_with(words, chosen, labels != -100)
        states = hidden_states(self.student, ids, positions, mask, self.run_layer)
        total = states[0].new_zeros(())
        distillation = mlm = accuracy = None
        if self.teacher is not None:
            distillation = self._distillation(states, batch, hidden_words)
            total = total + self.settings.distil_weight * distillation.mean()
        if self.head is not None:
            embeddings = self.student.embeddings.word_embeddings.weight
            mlm, accuracy = self.mlm_loss(states[-1], chosen, labels, self.head, embeddings)
            total = total + self.mlm_weight * mlm
        return Losses(total, distillation, mlm, accuracy)

    def _distillation(self, states: list[torch.Tensor], batch: Batch, hidden_words: torch.Tensor) -> torch.Tensor:
        teacher = self.teacher
        assert teacher is not None
        ids = batch["teacher_ids"]
        # The teacher computes in the precision of its weights; autocast would keep its layer norms in fp32.
        with torch.no_grad(), torch.autocast(ids.device.type, enabled=False):
            positions, mask = layout(ids, cls=teacher.vocabulary.cls, pad=teacher.vocabulary.pad)
            targets = hidden_states(teacher.encoder, ids, positions + teacher.first_position, mask, self.run_layer)
            dtype = targets[0].dtype
            average_student = word_average(batch["student_words"], dtype)
            average_teacher = word_average(batch["teacher_words"], dtype)
            counted = ((average_student.amax(-1) > 0) & ~hidden_words).float()
        return torch.stack(
            [
                self.layer_loss(
                    state,
                    targets[self.teacher_layer(k)],
                    average_student,
                    average_teacher,
                    counted,
                    projection.weight,
                    projection.bias,
                )
                for k, (state, projection) in enumerate(zip(states, self.projections, strict=True))
            ]
        )


def hide(
    ids: torch.Tensor, key: tuple[int, int], settings: PretrainSettings
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows with hidden pieces, the positions that were chosen [rows, n], and what stood there.

    The number of positions is the same in every row, so shapes are static; what lies beyond the pieces of a row that is
    nearly empty gets the label −100.
    """
    n = max(1, round(settings.mask_share * ids.shape[1]))
    index = torch.arange(ids.numel(), dtype=torch.int32, device=ids.device).view_as(ids)
    draw = streams.uniform(index, *key)
    special = (ids < len(own.SPECIAL)) & (ids != own.UNK)
    chosen = torch.where(special, 2.0, draw).topk(n, dim=1, largest=False).indices
    real = ~special.gather(1, chosen)
    originals = ids.gather(1, chosen)
    # The ranks of the draws chose the positions, so a second stream decides what happens to them.
    fate = streams.uniform(index + ids.numel(), *key).gather(1, chosen)
    other = streams.uniform(index + 2 * ids.numel(), *key).gather(1, chosen)
    random_piece = (other * (settings.vocabulary - len(own.SPECIAL))).long() + len(own.SPECIAL)
    replaced = torch.where(fate < 0.8, own.MASK, torch.where(fate < 0.9, random_piece, originals))
    hidden = ids.scatter(1, chosen, torch.where(real, replaced, originals))
    return hidden, chosen, torch.where(real, originals, -100)


def _words_with(words: torch.Tensor, chosen: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """[rows, words]: whether one of the chosen pieces belongs to the word."""
    length = words.shape[1]
    touched = torch.zeros(words.shape[0], length + 1, dtype=torch.bool, device=words.device)
    numbers = torch.where(real, words.gather(1, chosen), length)
    return touched.scatter(1, numbers, True)[:, :length]
