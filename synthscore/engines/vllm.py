"""vLLM in this process as an engine. Not run by our tests, which have no vLLM: they run it against its interface.

Relies on vllm.LLM(...).generate over prompts of token ids, SamplingParams(logprob_token_ids=...) for chosen tokens
(older versions: the k most probable, so that labels may be censored), and raw log-probabilities (logprobs_mode, its
default). Prefixes that prompts share are vLLM's own business (enable_prefix_caching).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import Generation, LabelLogProbs, Progress, Prompt, Rival, Sampling
from ..errors import EngineError, LabelError, PromptTooLongError
from ..signature import Signature
from ..types import FloatArray
from .reading import Readings
from .servers.steps import Step, known_from_ids, next_tokens
from .tokens import Ids, LabelForms, PromptTokenizer

_TOP_K = 20  # the most that vLLM gives unless it is told otherwise (max_logprobs)


class VLLMEngine:
    """vllm.LLM, with its SamplingParams class, as an Engine. `VLLMEngine.load` makes one."""

    def __init__(self, llm: Any, sampling_params: Any, *, name: str, version: str) -> None:
        self.name, self.version = name, version
        self._llm, self._params = llm, sampling_params
        config = llm.llm_engine.model_config
        self._dtype = str(config.dtype).removeprefix("torch.")
        self._revision = str(getattr(config, "revision", None) or "unknown")
        self.prompts = PromptTokenizer(llm.get_tokenizer(), int(config.max_model_len))
        self._chooses = hasattr(sampling_params, "logprob_token_ids")

    @classmethod
    def load(cls, name: str, **options: Any) -> VLLMEngine:
        """A model of the hub or a folder. options : vllm.LLM's (dtype, revision, tensor_parallel_size, ...)

        raises : EngineError, without vLLM, or when it cannot load the model
        """
        try:
            import vllm
        except ImportError as error:
            raise EngineError(f"cannot open 'vllm:{name}': {error}. Run: pip install 'synthscore[vllm]'") from error
        try:
            llm = vllm.LLM(model=name, **options)
        except Exception as error:  # vLLM raises whatever it likes
            raise EngineError(
                f"vLLM cannot load {name!r}: {error}. Expected a folder or hub id that it serves"
            ) from error
        return cls(llm, vllm.SamplingParams, name=name, version=str(vllm.__version__))

    @property
    def signature(self) -> Signature:
        how = "vllm-ids" if self._chooses else f"vllm-topk{_TOP_K}"
        return Signature.of(
            model=f"{self.name}@{self._revision}",
            dtype=self._dtype,
            backend=how,
            chat=self.prompts.template_hash,
            vllm=self.version,
        )

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """As the contract has it; where vLLM cannot choose tokens, labels outside the most probable are censored.

        All prompts are run in one go, and then, for labels of several tokens, what goes on from their beginnings.
        """
        asked: dict[int, tuple[Ids, LabelForms]] = {}
        failures: dict[int, str] = {}
        for row, prompt in enumerate(prompts):
            try:
                ids = tuple(self.prompts.encode(prompt))
                forms = self.prompts.label_forms(prompt, labels, ids)
                self.prompts.check_room(len(ids), forms.n_longest)
            except LabelError:
                raise
            except EngineError as error:
                failures[row] = str(error)
            else:
                asked[row] = ids, forms
        places = {
            ids + form[:n]: next_tokens(forms, form[:n])
            for ids, forms in asked.values()
            for form in forms.all
            for n in range(len(form))
        }
        steps = self._steps(places)
        log_probs = np.full((len(prompts), len(labels)), np.nan)
        floors = log_probs.copy()
        rivals: list[Rival | None] = [None] * len(prompts)
        for row, (ids, forms) in asked.items():
            known = known_from_ids(forms, lambda start, ids=ids: steps[ids + start])  # type: ignore[misc]
            log_probs[row], floors[row] = known.most, known.least
            if known.rival is not None:
                token, log_prob = known.rival
                rivals[row] = Rival(str(self.prompts.tokenizer.decode([token])), log_prob)
        if progress:
            progress(len(prompts))
        censored = floors < log_probs
        told = (None, None) if not censored.any() else (censored, floors)
        n_tokens = sum(len(ids) for ids, _ in asked.values())
        return LabelLogProbs(tuple(labels), log_probs, tuple(rivals), failures, n_tokens, n_tokens, *told)

    def _steps(self, places: Mapping[Ids, Sequence[int]]) -> dict[Ids, Step[int]]:
        """What is told of the token after each sequence, of those tokens that matter there."""
        how = [
            self._params(
                max_tokens=1,
                temperature=0.0,
                **({"logprob_token_ids": list(wanted)} if self._chooses else {"logprobs": _TOP_K}),
            )
            for wanted in places.values()
        ]
        steps: dict[Ids, Step[int]] = {}
        for (ids, wanted), reply in zip(places.items(), self._run(places, how), strict=True):
            told = [(token, float(one.logprob)) for token, one in reply.outputs[0].logprobs[0].items()]
            missing = set(wanted) - {token for token, _ in told}
            if self._chooses and missing:
                raise EngineError(f"vLLM did not tell the tokens {sorted(missing)}, which were asked for. Update it")
            try:
                steps[ids] = Step.of_chosen(told) if self._chooses else Step.of_top(told, _TOP_K)
            except ValueError as error:
                raise EngineError(f"vLLM's log-probabilities cannot be used: {error}. Try dtype float32") from None
        return steps

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """As the contract has it. vLLM promises the same text for the same seed on the same machine and batch only."""
        results: list[Generation | Exception] = [EngineError("not written")] * len(prompts)
        asked: dict[int, Ids] = {}
        for row, prompt in enumerate(prompts):
            try:
                asked[row] = tuple(self.prompts.encode(prompt))
            except EngineError as error:
                results[row] = error
        how = [
            self._params(
                max_tokens=min(sampling.max_new_tokens, self.prompts.max_length - len(ids)),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                seed=seeds[row] % 2**63,
                stop=list(sampling.stop) or None,
            )
            for row, ids in asked.items()
        ]
        for row, reply in zip(asked, self._run(list(asked.values()), how), strict=True):
            (text,) = reply.outputs
            if text.finish_reason in ("stop", "length"):
                results[row] = Generation(text.text, text.finish_reason, len(text.token_ids))
            else:
                results[row] = EngineError(
                    f"vLLM ended the text with {text.finish_reason!r}, expected 'stop' or 'length'"
                )
        if progress:
            progress(len(prompts))
        return results

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        """As the contract has it, by the log-probabilities of a prompt's own tokens; a token more is written."""
        readings = Readings(prompts, continuations, self.prompts, self.name, progress)
        asked: dict[int, Ids] = {}
        for place, ids in enumerate(readings.sequences):
            try:
                self.prompts.check_room(len(ids), 1)
                asked[place] = tuple(ids.tolist())
            except PromptTooLongError as error:
                readings.tell(place, error)
        how = [self._params(max_tokens=1, temperature=0.0, prompt_logprobs=1)] * len(asked)
        for (place, sequence), reply in zip(asked.items(), self._run(asked.values(), how), strict=True):
            steps = reply.prompt_logprobs
            try:
                told = [float(steps[n][sequence[n]].logprob) for n in range(readings.n_starts[place], len(sequence))]
            except (KeyError, IndexError, TypeError):
                readings.tell(place, EngineError("vLLM did not tell all tokens of a prompt. Update it"))
            else:
                readings.tell(place, np.array(told))
        return readings.answers()

    def _run(self, sequences: Iterable[Ids], how: list[Any]) -> list[Any]:
        asked = [{"prompt_token_ids": list(ids)} for ids in sequences]
        return list(self._llm.generate(asked, how, use_tqdm=False)) if asked else []
