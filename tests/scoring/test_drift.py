"""Whether judge and texts are what they were: by a judge whose truth is known, other formulas, and the commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.drift import CHANGES, Run, fitted, on_certificates, scores_of, simulate
from synthscore import engines
from synthscore.cli.app import main
from synthscore.errors import CertificateError, InputError
from synthscore.ladders.references import References
from synthscore.scoring.anchored import Scales
from synthscore.scoring.anchored.drift import Watch
from synthscore.scoring.anchored.scale import Statistic
from synthscore.signature import Signature
from synthscore.thresholds.certificate import Certificate
from tests import factories
from tests.fakes import FakeEngine

FIT = Run(40, 16)
SCALE = fitted(FIT, 0)
OWN = Signature.of(task="task", attribute="attribute", protocol="compare")


def names(n):
    return [str(k) for k in range(n)]


def run(change="none", seed=1, contexts=40, texts=8):
    return simulate(np.random.default_rng(seed), Run(contexts, texts), **CHANGES[change][0])[0]


def drift(answers, scale=SCALE):
    return Watch.scale(scale).observe(answers, names(answers.n_ladders)).drift()


# ------------------------------------------------------------------------------------------------- what is seen


def test_a_judge_that_is_what_it_was_raises_no_alarm():
    verdicts = [drift(run(seed=seed)).verdict for seed in range(12)]
    assert verdicts.count("none") >= 10  # of 12 at .05 each: two false alarms or fewer in 98 %


@pytest.mark.parametrize(
    ("change", "of", "name", "value"),
    [
        ("sharpness x 2", "judge", "sharpness", pytest.approx(2.0, rel=0.15)),
        ("sharpness x .5", "judge", "sharpness", pytest.approx(0.5, rel=0.15)),
        ("noise x 2", "judge", "noise", pytest.approx(3.1, rel=0.2)),  # 4 in log-odds; probabilities end at 0 and 1
        ("bias turned round", "judge", "bias", pytest.approx(-0.8, abs=0.2)),
        ("50 -> 10 % good", "texts", "texts", pytest.approx(2.2, abs=0.15)),
    ],
)
def test_each_change_is_told_by_its_own_statistic_and_measured(change, of, name, value):
    found = drift(run(change))
    assert found.verdict == of
    assert {each.name: each.now.value for each in found.changed}[name] == value


def test_what_changes_one_statistic_leaves_others_where_they_were():
    """Each has a way in which it would follow another one."""

    def seen(texts=16, **changes):
        answers = simulate(np.random.default_rng(3), Run(640 // texts, texts), **changes)[0]
        return Watch.scale(SCALE).observe(answers, names(answers.n_ladders)).now()

    assert seen(bias=-0.8)["noise"].value == pytest.approx(0.9, abs=0.2)  # a bias is no noise
    assert seen(sharpness=2.4, good=0.1)["texts"].value == pytest.approx(2.2, abs=0.2)  # in rungs as they are seen
    assert seen(texts=1, sharpness=2.4)["sharpness"].value == pytest.approx(2.0, abs=0.15)  # not drawn to 1


def test_noise_is_told_as_how_far_answers_scatter():
    noise = next(change for change in drift(run("noise x 2")).changed if change.name == "noise")
    assert (
        noise.words == f"its answers scatter {np.sqrt(noise.now.value / noise.was.value):.2g} times as far as they did"
    )


def test_other_texts_are_no_other_judge():
    found = drift(run("50 -> 10 % good", texts=16))
    assert [change.name for change in found.changed] == ["texts"]
    assert found.holds
    assert "texts stand 0.7" in found.words
    assert found.words.endswith("the judge answers as it did")


@pytest.mark.parametrize("name", ["1", "16"])
def test_the_number_of_texts_a_context_does_not_move_a_statistic(name):
    """Of a run without a change: few answers draw towards priors, and statistics must not be drawn."""
    texts = int(name)
    now = Watch.scale(SCALE).observe(run(contexts=16 * 40 // texts, texts=texts), names(16 * 40 // texts)).now()
    for each, was in SCALE.statistics.items():
        error = np.hypot(was.stderr, now[each].stderr)
        assert abs(now[each].value - was.value) < 3.5 * error, each


def test_a_ratio_of_sums_is_a_slow_one_with_an_error_by_leaving_contexts_out():
    watch = Watch.scale(SCALE).observe(run(), names(40))
    above, below = np.array(list(watch._sums["noise"].values())).T
    left_out = [(above.sum() - a) / (below.sum() - b) for a, b in zip(above, below, strict=True)]
    seen = watch.now()["noise"]
    assert seen.value == pytest.approx(above.sum() / below.sum())
    jackknife = np.sqrt(39 / 40 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    assert seen.stderr == pytest.approx(jackknife, rel=0.05)
    assert seen.n == pytest.approx(40, rel=0.1)


def test_p_is_that_of_welch_and_all_together_that_of_holm():
    rng = np.random.default_rng(0)
    was, now = rng.normal(0, 1, 30), rng.normal(0.8, 1.5, 20)
    seen = {
        name: Statistic(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))), len(values))
        for name, values in (("was", was), ("now", now))
    }
    watch = Watch("", "", OWN, None, {"score": seen["was"], "kept": seen["was"]}, keep_from=0.0)
    for k, value in enumerate(now):
        watch._count("score", str(k), value, 1)
        watch._count("kept", str(k), was[k], 1)
    found = {change.name: change.p for change in watch.drift().changes}
    assert found["score"] == pytest.approx(2 * stats.ttest_ind(was, now, equal_var=False).pvalue)
    assert found["kept"] >= found["score"]


def test_few_contexts_that_are_alike_by_chance_are_no_drift():
    seen = {"score": Statistic(3.0, 0.1, 100.0)}
    watch = Watch("", "", OWN, None, seen, keep_from=3.0)
    for k, value in enumerate((3.5, 3.5001, 3.5002)):  # a standard deviation of 1 at the fit
        watch._count("score", str(k), value, 1)
    assert watch.drift().verdict == "none"


@pytest.mark.parametrize("contexts", [1, 2])
def test_of_one_or_two_contexts_nothing_is_said_and_that_is(contexts):
    found = drift(run("sharpness x 2", contexts=contexts))
    assert (found.verdict, found.holds) == ("unknown", False)
    assert "this run says nothing. It needs verdicts" in found.words
    assert "3 contexts at least" in found.words


def test_answers_in_one_order_say_nothing_of_the_bias():
    answers = run()
    found = drift(answers.take(answers.sign > 0))
    assert found.lacking == ("bias",)
    assert "(not compared: bias)" in found.words


def test_a_judge_that_stopped_telling_rungs_apart_is_named():
    answers = run()
    flat = replace(answers, probs=np.full_like(answers.probs, 1 / 3))
    assert "sharpness" in {change.name for change in drift(flat).changed}


def test_a_sharpness_or_noise_of_nothing_is_compared_as_it_is():
    watch = Watch("", "", OWN, None, {"noise": Statistic(0.0, 0.1, 9.0)}, keep_from=3.0)
    for k in range(9):
        watch._count("noise", str(k), 2.0 + k / 100, 1)
    assert "inf times as far" in watch.drift().words


# ------------------------------------------------------------------------------------------------- scores


def test_scores_say_what_their_answers_say_in_whatever_batches():
    answers = run(contexts=12)
    scored = [(score, OWN) for score in scores_of(answers, verdicts=True)]
    whole, parts = Watch.scale(SCALE), Watch.scale(SCALE)
    whole.add(scored)
    for context in range(0, 12, 4):
        parts.add([each for each in scored if context <= int(each[0].context_id) < context + 4])
    expected = Watch.scale(SCALE).observe(answers, names(12)).now()
    assert whole.now() == {name: pytest.approx(seen, rel=1e-6) for name, seen in expected.items()}
    for name, seen in expected.items():  # the mean bias that residuals are freed of is that of a batch
        assert parts.now()[name].value == pytest.approx(seen.value, rel=0.02 if name == "noise" else 1e-6)


def test_a_context_may_come_in_several_batches():
    scored = [(score, OWN) for score in scores_of(run(contexts=5), verdicts=False)]
    whole, parts = (Watch("", "", OWN, None, keep_from=3.0) for _ in range(2))
    whole.add(scored)
    parts.add(scored[::2])
    parts.add(scored[1::2])
    assert parts.now() == {name: pytest.approx(seen) for name, seen in whole.now().items()}
    assert parts.now()["score"].value == pytest.approx(np.mean([score.value for score, _ in scored]))


def test_scores_of_another_attribute_or_length_of_ladder_are_left_alone():
    scored = scores_of(run(contexts=6), verdicts=True)
    watch = Watch.scale(SCALE)
    watch.add((score, OWN.with_(attribute="other")) for score in scored)
    watch.add((replace(score, details={"n_rungs": 7.0}), OWN) for score in scored)
    watch.add((replace(score, details={"questions": 4.0}), OWN) for score in scored)  # asked about in rounds
    watch.add((score, OWN) for score in scores_of(run(contexts=6), verdicts=False))
    assert watch.drift().n_contexts == 0


def test_a_certificate_tells_other_texts_and_with_verdicts_another_judge():
    found = on_certificates(True, 1, ["none", "sharpness x 2", "50 -> 10 % good"])
    assert [each.verdict for each in found.values()] == ["none", "judge", "texts"]
    assert not found["50 -> 10 % good"].holds
    assert "promised of texts drawn like those: label some of these texts" in found["50 -> 10 % good"].words
    bare = on_certificates(False, 0, ["50 -> 10 % good"])["50 -> 10 % good"]
    assert {change.name for change in bare.changes} == {"score", "kept"}
    assert bare.verdict == "texts"


# ------------------------------------------------------------------------------------------------- what is kept


def test_what_was_seen_is_kept_with_the_scale_and_changes_no_hash(tmp_path):
    Scales([SCALE]).save(tmp_path / "scale.json")
    (again,) = Scales.load(tmp_path / "scale.json")
    assert again.statistics == SCALE.statistics
    assert again.hash == SCALE.hash == replace(SCALE, statistics={}).hash


def test_a_scale_of_before_says_that_it_cannot_tell(tmp_path):
    Scales([SCALE]).save(tmp_path / "scale.json")
    content = json.loads((tmp_path / "scale.json").read_text())
    del content["scales"][0]["seen"]
    (tmp_path / "scale.json").write_text(json.dumps(content))
    found = drift(run(), Scales.load(tmp_path / "scale.json")[0])
    assert found.verdict == "unknown"
    assert "does not hold what was seen when it was made. To have this check, fit the scale anew" in found.words


@pytest.mark.parametrize(
    "seen", [{"noise": [1.0, 0.1]}, {"noise": [1.0, -0.1, 40]}, {"noise": [1, 0, 1]}, {"noise": 1}]
)
def test_what_cannot_have_been_seen_is_refused(tmp_path, seen):
    Scales([SCALE]).save(tmp_path / "scale.json")
    content = json.loads((tmp_path / "scale.json").read_text())
    content["scales"][0]["seen"] = seen
    (tmp_path / "scale.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="cannot read the scale"):
        Scales.load(tmp_path / "scale.json")


# ------------------------------------------------------------------------------------------------- the commands


def judge(sharpness):
    """So many nats a rung, and noise that belongs to the prompt."""

    def answers(prompt, labels):
        reference, target = (float(part.split()[0]) for part in prompt.text.split("q=")[1:])
        noise = np.random.default_rng(int.from_bytes(prompt.text.encode()[-400:], "big")).normal()
        d = sharpness * (target - reference) + 0.5 + 0.3 * noise
        weights = np.exp([d / 2, -d / 2, 0.2][: len(labels)])
        return np.log(0.9 * weights / weights.sum())

    return FakeEngine(answers)


ASK = ["--references", "ladders", "--both-orders", "--store", "none", "--verdicts"]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A scale, and a certificate, of a judge; then the judge is twice as sharp."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ladders = [
        factories.ladder(f"c{i}", qualities=(np.arange(1, 6) + 0.2 * rng.normal(size=5)).round(3).tolist())
        for i in range(24)
    ]
    References(tuple(ladders)).save(tmp_path / "ladders")
    for name in ("one", "two"):
        texts = [
            {
                "id": f"{name}{i}-{k}",
                "context_id": f"c{i}",
                "text": f"{name} {i} {k} of q={q:.2f} .",
                "label": bool(q > 3),
            }
            for i in range(24)
            for k, q in enumerate(rng.uniform(1, 5, 5))
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    asked = {"engine": judge(1.5)}
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: asked["engine"])
    anchored = ["--scoring", "anchored"]
    assert main(["score", "one.jsonl", *ASK, *anchored, "--save-scale", "scale.json", "-o", "fit.jsonl"]) == 0
    assert main(["score", "two.jsonl", *ASK, *anchored, "--scale", "scale.json", "-o", "same.jsonl"]) == 0
    assert main(["score", "one.jsonl", *ASK, "-o", "labelled.jsonl"]) == 0
    labels = ["--labels", "one.jsonl", "--guarantee", "recall>=0.8"]
    assert main(["calibrate", "labelled.jsonl", *labels, "-o", "calibration.json"]) == 0
    asked["engine"] = judge(3.0)
    return tmp_path


def test_score_on_a_scale_warns_of_a_judge_that_has_changed(kept, capsys):
    again = ["--scoring", "anchored", "--scale", "scale.json", "-o", "now.jsonl"]
    engines.open_engine.__closure__[0].cell_contents["engine"] = judge(1.5)
    assert main(["score", "two.jsonl", *ASK, *again]) == 0
    said = capsys.readouterr().err
    assert "no drift from the scale summarization/coherence of 5 rungs: 10 statistics of 24 contexts" in said
    engines.open_engine.__closure__[0].cell_contents["engine"] = judge(3.0)
    assert main(["score", "two.jsonl", *ASK, *again]) == 0
    said = capsys.readouterr().err
    assert "warning: drift from the scale summarization/coherence of 5 rungs: the judge is 2 times as sharp" in said
    assert "fit the scale anew (--save-scale)" in said


def test_the_command_prints_what_has_changed_and_its_exit_code_says_whether(kept, capsys):
    main(["score", "two.jsonl", *ASK, "-o", "now.jsonl"])  # scored in whatever way: the verdicts tell
    capsys.readouterr()
    assert main(["drift", "same.jsonl", "--scale", "scale.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("no drift from the scale")
    assert main(["drift", "now.jsonl", "--scale", "scale.json"]) == 3
    assert "sharpness" in capsys.readouterr().out
    assert main(["drift", "now.jsonl", "--certificate", "calibration.json"]) == 3
    assert "drift from the certificate: the judge is 2 times as sharp" in capsys.readouterr().out
    assert main(["drift", "now.jsonl"]) == 2


def test_rows_that_cannot_be_read_are_counted(kept, capsys):
    with (kept / "same.jsonl").open("a") as file:
        file.write("not json\n")
    capsys.readouterr()
    assert main(["drift", "same.jsonl", "--scale", "scale.json"]) == 3
    assert "1 row could not be used" in capsys.readouterr().err


def test_filter_warns_where_its_certificate_is_of_another_judge_or_other_texts(kept, capsys):
    rows = (kept / "two.jsonl").read_text().splitlines()
    bad = [row for row in rows if not json.loads(row)["label"]]
    (kept / "bad.jsonl").write_text("\n".join(bad) + "\n")
    by = ["filter", "--references", "ladders", "--both-orders", "--certificate", "calibration.json", "--store", "none"]
    main([*by, "two.jsonl", "-o", "kept.jsonl"])
    assert "warning: drift from the certificate: the judge is 2 times as sharp" in capsys.readouterr().err
    engines.open_engine.__closure__[0].cell_contents["engine"] = judge(1.5)
    main([*by, "two.jsonl", "-o", "kept.jsonl"])
    assert "no drift from the certificate" in capsys.readouterr().err
    main([*by, "bad.jsonl", "-o", "kept.jsonl"])
    assert "warning: the texts are not like those of the certificate" in capsys.readouterr().err


def test_a_certificate_keeps_what_was_seen_and_refuses_what_cannot_be(kept):
    certificate = Certificate.load("calibration.json")
    assert {"score", "kept", "sharpness", "bias", "noise"} <= certificate.statistics.keys()
    assert certificate.judge.n_rungs == 5
    certificate.save("again.json")
    assert Certificate.load("again.json") == certificate
    content = json.loads((kept / "again.json").read_text())
    content["certificate"]["seen"]["kept"] = [0.5, -1, 24]
    (kept / "again.json").write_text(json.dumps(content))
    with pytest.raises(CertificateError, match="cannot read the certificate"):
        Certificate.load("again.json")
    for name in ("seen", "judge"):
        del content["certificate"][name]
    (kept / "again.json").write_text(json.dumps(content))
    assert Certificate.load("again.json").watch.drift().verdict == "unknown"


def test_scores_on_another_scale_than_what_was_kept_are_refused(kept, capsys):
    rows = [json.loads(line) for line in (kept / "same.jsonl").read_text().splitlines()]
    rows[0]["signature"] = "method:direct|scale:1..5"
    (kept / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (kept / "direct.jsonl").write_text(json.dumps(rows[0]) + "\n")
    capsys.readouterr()
    for name in ("mixed.jsonl", "direct.jsonl"):
        assert main(["drift", name, "--certificate", "calibration.json"]) == 1
        assert f"{name}: the scores are on 2 scales" in capsys.readouterr().err
