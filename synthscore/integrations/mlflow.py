"""MLflow: a scorer for `mlflow.genai.evaluate`, whose threads' texts become calls of many texts."""

from __future__ import annotations

from typing import Any

from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.scorers import Scorer

from .mount import Mount, row_of


class SynthscoreScorer(Scorer):
    """Feedback with the score on the rung scale, or with the error why there is none. Its source is the signature.

    mount : what the scorer is made of
    context_key : in the inputs, the id of the context; without it, inputs["context"] is the context
    """

    name: str = "synthscore"
    mount: Mount
    context_key: str = "context_id"

    def __call__(self, *, inputs: Any = None, outputs: Any = None) -> Feedback:
        """inputs : a mapping that says which context. outputs : the text, or a mapping that holds one text"""
        given = inputs if isinstance(inputs, dict) else {"context": inputs}
        row = row_of(0, _text(outputs), context_id=given.get(self.context_key), context=given.get("context"))
        [score] = self.mount.scores([row])
        source = AssessmentSource(source_type="LLM_JUDGE", source_id=self.mount.signature)
        details = {name: f"{value:.4f}" for name, value in score.details.items()}
        about: dict[str, Any] = {"name": self.name, "source": source, "metadata": details}
        if score.value is None:
            return Feedback(error=score.reason, rationale=score.reason, **about)
        return Feedback(value=score.value, rationale=score.reason or None, **about)


def _text(outputs: Any) -> Any:
    """Of a mapping, the one value that is a text; without one, or with several, the mapping, which is unscored."""
    if not isinstance(outputs, dict):
        return outputs
    texts = [value for value in outputs.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else outputs
