"""Texts -> a vector for each of their tokens, by an encoder of transformers (BERT, RoBERTa and their kin)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers import AutoModel

from synthscore.engine import Prompt
from synthscore.engines.loading import dtype_name, load, max_length
from synthscore.engines.tokens import PromptTokenizer
from synthscore.errors import EngineError
from synthscore.signature import Signature

_MAX_ROWS = 64  # texts side by side
_ANY_LENGTH = 1_000_000
_BEST_LAYERS = {("roberta", 12): 10, ("roberta", 24): 17}


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """One text.

    vectors : float32, shape (n_tokens, d), each of length 1
    is_text : bool, shape (n_tokens,); False: a token that the model puts around a text ([CLS], [SEP])
    n_cut : tokens at the end of the text that the model does not take
    """

    vectors: npt.NDArray[np.float32]
    is_text: npt.NDArray[np.bool_]
    n_cut: int


class Encoder:
    """An encoder that is read at one layer. `Encoder.load` makes one from a folder or a hub id.

    layer : 1 .. n_layers; 0 is the embeddings before the first. None: 17 of 24 and 10 of 12 of a RoBERTa, else three
        quarters of the layers, rounded up (9 of 12, 18 of 24)
    max_tokens : of texts side by side in one forward, padding included
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        revision: str = "unknown",
        layer: int | None = None,
        max_tokens: int = 4096,
    ) -> None:
        config = model.config.get_text_config()
        self.n_layers = int(config.num_hidden_layers)
        if layer is None:
            layer = _BEST_LAYERS.get((config.model_type, self.n_layers), self.n_layers - self.n_layers // 4)
        if not 0 <= layer <= self.n_layers:
            raise EngineError(f"{name} has no layer {layer}: expected 0 to {self.n_layers}. Choose one of them")
        if model.config.is_encoder_decoder:
            raise EngineError(f"{name} is an encoder with a decoder, expected an encoder, such as bert-base-uncased")
        self.model, self.layer, self.name, self.revision = model.eval(), layer, name, revision
        self._tokens = PromptTokenizer(tokenizer, _ANY_LENGTH, framed=False)
        word, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        start = next((n for n in range(len(whole)) if whole[n : n + len(word)] == word), 0)
        self._before, self._behind = whole[:start], whole[start + len(word) :]
        # A tokenizer that tells "a" from " a" was trained on words with a space in front: the first is one of them.
        self._space = " " if tokenizer(" a", add_special_tokens=False)["input_ids"] != word else ""
        self._pad = tokenizer.pad_token_id or 0
        self.max_length = min(_n_positions(model), max_length(model.config, tokenizer), tokenizer.model_max_length)
        self._max_tokens = max_tokens

    @classmethod
    def load(
        cls, path_or_id: str | Path, *, revision: str | None = None, layer: int | None = None, device: str | None = None
    ) -> Encoder:
        """A model from a local folder or the hub, in float32. raises : EngineError, when it cannot be loaded"""
        loaded = load(
            AutoModel,
            "an encoder",
            path_or_id,
            revision=revision,
            dtype="float32",
            device=device,
            unread="pooler.",  # a layer behind the last one
        )
        return cls(loaded.model, loaded.tokenizer, name=loaded.name, revision=loaded.revision, layer=layer)

    @property
    def signature(self) -> Signature:
        """Model, revision, dtype, layer, the most tokens of a text, and library versions."""
        return Signature.of(
            model=f"{self.name}@{self.revision}",
            dtype=dtype_name(self.model),
            layer=f"{self.layer}/{self.n_layers}",
            max_length=self.max_length,
            transformers=transformers.__version__,
            torch=torch.__version__,
        )

    def embed(self, texts: Iterable[str]) -> Mapping[str, Embedded]:
        """Each different text once; one that is longer than the model takes is cut. Texts are plain text: no control
        token arises from them, and white space around them counts for nothing."""
        encoded = {text: self._tokens.encode(Prompt(self._space + text.strip()), room=0) for text in texts}
        room = self.max_length - len(self._before) - len(self._behind)
        order = sorted(encoded, key=lambda text: len(encoded[text]))
        found: dict[str, Embedded] = {}
        while order:
            width = min(len(encoded[order[-1]]), room) + self.max_length - room
            n_rows = max(1, min(_MAX_ROWS, self._max_tokens // width))
            batch, order = order[-n_rows:], order[:-n_rows]
            rows = [[*self._before, *encoded[text][:room], *self._behind] for text in batch]
            for text, ids, states in zip(batch, rows, self._states(rows), strict=True):
                vectors = states[: len(ids)] / np.linalg.norm(states[: len(ids)], axis=1, keepdims=True)
                is_text = np.zeros(len(ids), dtype=np.bool_)
                is_text[len(self._before) : len(ids) - len(self._behind)] = True
                found[text] = Embedded(vectors, is_text, max(len(encoded[text]) - room, 0))
        return found

    @torch.inference_mode()
    def _states(self, rows: list[list[int]]) -> npt.NDArray[np.float32]:
        """The layer's hidden states, shape (n_rows, longest row, d)."""
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._pad] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        device = self.model.device
        output = self.model(input_ids=ids.to(device), attention_mask=mask.to(device), output_hidden_states=True)
        states: npt.NDArray[np.float32] = output.hidden_states[self.layer].float().cpu().numpy()
        return states


def _n_positions(model: Any) -> int:
    """Entries in the table of positions that a text may take: those of a RoBERTa begin behind that of padding."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return _ANY_LENGTH
