"""Decision models that run here: a head, or a language model with a decision.json, that chooses among given options.

The prompt around state, instructions and options is the model's own (transformers.decision). Log-probabilities are over
the options: what else it would say is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from transformers import AutoModelForCausalLM, DecisionPipeline
from transformers.decision import DecisionConfig
from transformers.decision.modeling_utils import DecisionMixin
from transformers.models.auto.modeling_auto import MODEL_FOR_DECISION_MAPPING

from ..engine import Answer, Capabilities, Kind, LabelAnswer, Question
from ..errors import EngineError
from .local import LocalEngine, Part
from .servers.decisions import SystemOne


class _WithOrWithoutHead:
    """Reads a model's weights, and how it decides (`decision_config`)."""

    @staticmethod
    def from_pretrained(place: str, *, config: Any, revision: str | None, **options: Any) -> Any:
        found, decision_config = AutoModelForCausalLM, None
        if type(config) in MODEL_FOR_DECISION_MAPPING:
            kind = MODEL_FOR_DECISION_MAPPING[type(config)]
            head = config
            if not isinstance(config, kind.config_class):  # a head in files of its own beside the weights?
                head, decision_config = kind.checkpoint_config(place, revision=revision)
            if head is not None:
                # Past DecisionMixin's, which cannot say which weights are missing.
                found, config = super(DecisionMixin, kind), head
                options.pop("trust_remote_code")
        model, info = found.from_pretrained(place, config=config, revision=revision, **options)
        model.decision_config = decision_config or DecisionConfig.from_pretrained(place, revision=revision)
        return model, info


class DecisionEngine(LocalEngine):
    """A model that decides, and does not write. A question is read by itself, in one forward."""

    auto_class = _WithOrWithoutHead
    kind = "a decision model"
    alone = "decision"
    usual = 1
    own_parts: Mapping[str, str] = {"mass": "unreported"}
    can = Capabilities(decides=True, reports_mass=False)
    cannot: ClassVar[Mapping[Kind, str]] = {"text": "write", "tokens": "say how probable a text is"}

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        config = self.model.decision_config
        self._pipeline = DecisionPipeline(model=self.model, tokenizer=tokenizer, decision_config=config)
        return super()._prepare(tokenizer, backend)

    def _judge(self, questions: Sequence[Question]) -> Iterator[Part]:
        return self._one_by_one(questions, self._decision)

    def _decision(self, question: Question) -> tuple[Answer, int]:
        if question.prompt.prefill:
            raise EngineError(f"{self.name} decides: it cannot go on from {question.prompt.prefill!r}")
        try:
            prompts = self._pipeline.preprocess(SystemOne().body([question]))
        except ValueError as error:
            raise EngineError(f"{self.name} cannot decide this: {error}") from error
        n_tokens = prompts["prompts"][0][0]["input_ids"].shape[-1]
        self.prompts.check_room(n_tokens, 0)
        scores = self._pipeline.forward(prompts)["scores"][0][0]
        return LabelAnswer(scores.double().log_softmax(-1).tolist()), n_tokens
